import { isIP } from 'node:net';
import { basename } from 'node:path';
import { bareHost } from '../../model/host-address.ts';
import { launcherOf } from '../../model/launchers.ts';
import { serverNameOf } from './server-names.ts';

const VERBS = new Set(['run', 'exec', 'dlx', 'tool', 'x', '-m']);
/** Options of `docker run` that take no value, or have it in the same word. */
const WITHOUT_VALUE = /^(?:-[itdP]+|--(?:rm|init|interactive|tty|detach|privileged|read-only))$|=/;
/** Second-level labels below the domain of a country, as in `example.co.uk`. */
const SECOND_LEVEL = new Set(['ac', 'co', 'com', 'edu', 'gov', 'net', 'org']);
/** Hosting domains that give each customer a host name. */
const HOSTING = new Set([
  'fly',
  'herokuapp',
  'netlify',
  'ngrok-free',
  'onrender',
  'railway',
  'run',
  'vercel',
  'workers',
]);

/** The name of a server if the user gave none; null for an IP address. */
export function derivedName(words: readonly string[]): string | null {
  const [first = ''] = words;
  return URL.canParse(first) ? urlName(first) : commandName(words);
}

/** `npx -y @scope/server-memory@1.2` → `memory`, `./bin/files.js` → `files`. A launcher is named after what it runs. */
export function commandName([command = '', ...args]: readonly string[]): string {
  const isContainer = /(?:^|[\\/])(?:docker|podman)(?:\.exe)?$/.test(command);
  const isValue = (before = ''): boolean => isContainer && before.startsWith('-') && !WITHOUT_VALUE.test(before);
  const isProgram = (arg: string, at: number): boolean =>
    !arg.startsWith('-') && !VERBS.has(arg) && !isValue(args[at - 1]);
  const found = launcherOf(command) === null ? undefined : args.find(isProgram);
  const runs = isContainer ? found?.replace(/:[\w.-]+$/, '') : found;
  const program = basename((runs ?? command).replace(/(?<=.)@[^@/]*$/, ''));
  return shortName(program.replace(/\.(?:[cm]?[jt]s|py|sh|exe|cmd)$/, ''));
}

/** `https://mcp.linear.app/mcp` → `linear`, `http://localhost:3000` → `localhost-3000`; null for an IP address. */
export function urlName(url: string): string | null {
  const { hostname, port } = new URL(url);
  if (isIP(bareHost(hostname)) !== 0) return null;
  const labels = hostname.split('.').filter((label) => label !== '');
  if (labels.length < 2) return serverNameOf(port === '' ? hostname : `${hostname}-${port}`);
  const country = labels.pop()!.length === 2;
  if (country && labels.length > 1 && SECOND_LEVEL.has(labels.at(-1)!)) labels.pop();
  return shortName(HOSTING.has(labels.at(-1)!) ? labels[0]! : labels.at(-1)!);
}

function shortName(name: string): string {
  const short = name.replace(/^(?:mcp-server-|server-|mcp-)(?=.)/, '').replace(/(?:-mcp-server|-mcp|-server)$/, '');
  return serverNameOf(short === '' ? name : short);
}
