import { existsSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { relative, resolve } from 'node:path';
import { styleText } from 'node:util';
import {
  type ClientApp,
  clientsHere,
  entryFor,
  fileOf,
  isInstalled,
  type LinkTarget,
} from '../../app/clients/clients.ts';
import { entryIn, NotEditable, namesIn, withEntry } from '../../app/clients/edit-file.ts';
import { rememberPorts, usualPorts } from '../../app/gateway-folders.ts';
import { authority } from '../../app/listener-settings.ts';
import { runningGateways } from '../../app/running.ts';
import type { LoadOptions } from '../../config/load-config.ts';
import { suggest } from '../../config/problem/problem.ts';
import { LINKED_NAME } from '../../model/names.ts';
import { ControlClient } from '../access/control-client.ts';
import { findRunning } from '../access/find-running.ts';
import { folderOfLoad } from '../access/own-ports.ts';
import { notReached } from '../access/remote-gateway.ts';
import { readOnce } from '../check.ts';
import { type CommandInput, confirm } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode, usage } from '../exit-code.ts';
import { storedOptions } from '../sources.ts';
import { bytesOf, linksOf, textOf } from './links.ts';

export interface LinkInput extends CommandInput {
  /** Ids of clients; empty with `all`. */
  readonly clients: readonly string[];
  readonly all: boolean;
  /** The name of the gateway in the clients' files; null if the user gave none. */
  readonly name: string | null;
  /** Remove the other servers from the files. */
  readonly replace: boolean;
  /** MCP endpoint of the gateway; null for the gateway of this machine. */
  readonly url: string | null;
  /** Write without asking. */
  readonly yes: boolean;
}

type Done = 'linked' | 'unlinked' | 'nothing to change' | 'left as it is' | 'failed';
/** A client writes its file while the user is asked. */
const CHANGED = 'it was changed meanwhile, and nothing was written; try again';

/** `trunkline link <client>…|--all`: adds the gateway to the files of clients as a server, after showing each change. */
export async function link(input: LinkInput): Promise<ExitCode> {
  const { replace } = input;
  const chosen = choose(input);
  const endpoint = await endpointOf(input);
  const { name } = endpoint;
  const links = linksOf(input);
  return each(input, chosen, async (client) => {
    const file = fileOf(client);
    if (client.localOnly === true && input.url !== null)
      return ['failed', file, 'it starts local servers only, so that --url cannot be written for it'];
    const before = bytesOf(file);
    const text = textOf(before);
    const known = links.get(client.id);
    const linked = known?.file === file ? known.entries.find((one) => one.name === name) : undefined;
    const was = linked === undefined ? null : { entry: entryIn(text, client, name), url: linked.url };
    let after = withEntry(text, client, name, entryFor(client, endpoint, was));
    if (replace)
      for (const other of namesIn(after, client)) if (other !== name) after = withEntry(after, client, other, null);
    if (after === text) return ['nothing to change', file];
    const lost = replace ? await onlyFrom(input, file) : [];
    if (lost.length > 0) {
      const how = `trunkline stop; trunkline import; trunkline link ${client.id} --replace`;
      return [
        'failed',
        file,
        `a running gateway has ${lost.join(', ')} from this file alone; import them first: ${how}`,
      ];
    }
    if (!(await confirmChange(input, file, text, after, endpoint.key))) return ['left as it is', file];
    if (textOf(bytesOf(file)) !== text) return ['failed', file, CHANGED];
    links.write(client, file, before, after, { name, url: endpoint.url });
    return ['linked', file];
  });
}

/**
 * `trunkline unlink <client>…|--all`: restores each file byte for byte. In a file that has changed it removes the gateway's
 * entry, and with the last one puts back the servers that `link` replaced.
 */
export async function unlink(input: LinkInput): Promise<ExitCode> {
  const links = linksOf(input);
  return each(input, choose(input), async (client) => {
    const known = links.get(client.id);
    const file = known?.file ?? fileOf(client);
    const names = known?.entries.map((one) => one.name) ?? [];
    const name = input.name ?? (names.length === 1 ? names[0]! : LINKED_NAME);
    if (links.restore(client.id, name)) return ['unlinked', file];
    const text = textOf(bytesOf(file));
    const { after, putBack } = links.without(client, name, text);
    if (after === text) {
      links.forget(client.id, name);
      const others = names.filter((one) => one !== name).join(', ');
      if (others !== '') return ['nothing to change', file, `it is linked as ${others}: name one with --name`];
      return ['nothing to change', file];
    }
    const unchanged = links.isUnchanged(client.id, name);
    if (!unchanged && !(await confirmChange(input, file, text, after, null))) return ['left as it is', file];
    if (textOf(bytesOf(file)) !== text) return ['failed', file, CHANGED];
    links.remove(client.id, name, file, after);
    return ['unlinked', file, null, putBack];
  });
}

function choose({ clients: ids, all, terminal }: LinkInput): readonly ClientApp[] {
  const known = clientsHere(terminal.env);
  const installed = known.filter(isInstalled);
  if (all && installed.length === 0) throw usage('no client was found on this machine');
  if (all) return installed;
  if (ids.length === 0) {
    const found = installed.map(({ id }) => id).join(', ');
    const words =
      found === '' ? `none was found; known are ${known.map(({ id }) => id).join(', ')}` : `found: ${found}`;
    throw usage(`name a client, or --all; ${words}`);
  }
  return ids.map((id) => {
    const client = known.find((one) => one.id === id);
    if (client !== undefined) return client;
    const names = known.map((one) => one.id);
    const close = suggest(
      id,
      names.flatMap((name) => [name, name.split('-')[0]!]),
    );
    const meant = close === null ? [] : names.filter((name) => name === close || name.startsWith(`${close}-`));
    const words = meant.map((name) => `"${name}"`).join(' or ');
    throw usage(
      `there is no client "${id}"; ${meant.length === 0 ? `known are ${names.join(', ')}` : `did you mean ${words}?`}`,
    );
  });
}

async function each(
  input: LinkInput,
  clients: readonly ClientApp[],
  change: (client: ClientApp) => Promise<readonly [Done, string, (string | null)?, (readonly string[])?]>,
): Promise<ExitCode> {
  const { terminal, flags } = input;
  const home = terminal.env['HOME'] ?? homedir();
  const width = Math.max(...clients.map(({ title }) => title.length));
  const results: { client: string; done: Done; file: string; error: string | null; putBack?: readonly string[] }[] = [];
  for (const client of clients) {
    const [done, file, error, putBack] = await change(client).then(
      ([what, where, why = null, servers = []]) => [what, where, why, servers] as const,
      (cause: unknown) => ['failed', fileOf(client), reasonOf(cause), []] as const,
    );
    results.push({ client: client.id, done, file, error, ...(putBack.length === 0 ? {} : { putBack }) });
    const shown = file.startsWith(`${home}/`) ? `~/${relative(home, file)}` : file;
    const colour =
      done === 'failed' ? 'red' : done === 'nothing to change' || done === 'left as it is' ? 'gray' : 'green';
    const back = putBack.length === 0 ? '' : `, with what link had replaced: ${putBack.join(', ')}`;
    const why = error === null ? back : `: ${error}`;
    if (flags.json !== true)
      terminal.out(`${client.title.padEnd(width)}  ${styleText(colour, done)}  ${shown}${why}\n`);
  }
  if (flags.json === true) terminal.out(`${JSON.stringify({ clients: results })}\n`);
  return results.some(({ done }) => done === 'failed' || done === 'left as it is') ? EXIT.usage : EXIT.ok;
}

function reasonOf(cause: unknown): string {
  if (cause instanceof NotEditable) return `it cannot be edited (${cause.message}); correct it, then try again`;
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === undefined) throw cause;
  return message;
}

/** The endpoint for clients: that of the running gateway, else the one that it will have. */
async function endpointOf(input: LinkInput): Promise<LinkTarget> {
  const { flags, terminal } = input;
  const running = input.url === null ? await findRunning(input) : null;
  const load = await storedOptions(input);
  const url = input.url ?? running?.instance.mcpUrl ?? (await urlOfStopped(input, load, true));
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) throw usage(`"${url}" is not an http or https URL`);
  const key = flags.key ?? null;
  // The error of `fetch` would show the key.
  if (/[^\u0021-\u007e]/.test(key ?? ''))
    throw usage('the key (--key, TRUNKLINE_KEY) holds blanks or characters that no header can carry');
  if (input.url === null && running === null) terminal.err(`no gateway runs; clients will look for it at ${url}\n`);
  else await checkEndpoint(url, key);
  const files = running?.instance.files ?? (load.files ?? []).map((file) => resolve(load.cwd, file));
  const dataDir = flags.dataDir === undefined ? [] : ['--data-dir', resolve(terminal.cwd, flags.dataDir)];
  const bridge = [process.execPath, resolve(process.argv[1]!), 'stdio', ...files.slice(0, 1), ...dataDir];
  return { name: input.name ?? LINKED_NAME, url, key, bridge };
}

/** A server in the answer of the control API. */
interface ServerOfFile {
  readonly name: string;
  readonly state: string;
  readonly desired: {
    readonly source: string;
    readonly origin: string | null;
    readonly revision: number | null;
  } | null;
}

/** The servers that running gateways of this user have from this file and not from their store as well. */
async function onlyFrom({ terminal: { env } }: LinkInput, file: string): Promise<readonly string[]> {
  const isHere = (other: string): boolean => existsSync(other) && realpathSync(other) === realpathSync(file);
  const serving = existsSync(file) ? runningGateways(env).filter(({ instance }) => instance.files.some(isHere)) : [];
  const lost = serving.map(async (gateway) => {
    const text = await new ControlClient(gateway).get('/api/v1/servers');
    const { servers } = JSON.parse(text) as { servers: readonly ServerOfFile[] };
    return servers.flatMap(({ name, state, desired }) => {
      if (desired?.source !== 'file' || desired.revision !== null) return [];
      const runs = state !== 'suspended' && state !== 'misconfigured';
      return runs && isHere(desired.origin?.replace(/:\d+$/, '') ?? '') ? [name] : [];
    });
  });
  return (await Promise.all(lost)).flat();
}

/**
 * The address of a gateway that does not run. `reserves`: stores its ports, so that no other gateway takes them before it
 * starts.
 */
export async function urlOfStopped(input: CommandInput, load: LoadOptions, reserves: boolean): Promise<string> {
  const folder = await folderOfLoad(input, load);
  const usual = await usualPorts(folder, load.env, async () => true);
  const overrides = { ...load.overrides, usual };
  const read = await readOnce({ ...load, overrides, inputs: async () => null }, input);
  const unread = { host: '127.0.0.1', port: input.flags.port ?? usual.port, tls: null };
  const { host, port, tls } = read.ok ? read.state.listen : unread;
  if (reserves && port === usual.port) rememberPorts(folder, usual);
  return `${tls === null ? 'http' : 'https'}://${authority(host, port)}/mcp`;
}

/** Throws if no MCP endpoint answers at the URL, or if it refuses the key. */
async function checkEndpoint(url: string, key: string | null): Promise<void> {
  const authorization = key === null ? {} : { authorization: `Bearer ${key}` };
  const headers = {
    ...authorization,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  const answer = await fetch(url, { method: 'POST', headers, body }).catch((cause: Error) => {
    throw notReached(url, cause, 'mcp');
  });
  const { status } = answer;
  if (status === 404 || status === 405)
    throw usage(`there is no MCP endpoint at ${url}; that of a gateway ends in /mcp`);
  if (status === 403 || status >= 500)
    throw new CommandError(EXIT.unreachable, `${url} answers with ${status}: ${(await answer.text()).slice(0, 500)}`);
  if (status !== 401) return;
  const what =
    key === null ? 'lets in agents with a key only: name one' : 'does not know this key: name the one of an agent';
  throw new CommandError(EXIT.authRequired, `the gateway at ${url} ${what}, with --key or TRUNKLINE_KEY`);
}

async function confirmChange(
  { terminal, yes, flags }: LinkInput,
  file: string,
  before: string,
  after: string,
  key: string | null,
): Promise<boolean> {
  if (flags.json !== true) {
    const shown = difference(before, after).map((line) => (key === null ? line : line.replaceAll(key, '<key>')));
    terminal.out(`${file}\n${shown.map((line) => `  ${line}\n`).join('')}`);
  }
  if (yes) return true;
  if (terminal.ask === null) {
    throw usage('nothing was written: add --yes to write without being asked');
  }
  return confirm(terminal.ask, 'Write this?');
}

/** The lines that differ, with one line of context before and after. */
function difference(before: string, after: string): string[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  let same = 0;
  while (same < Math.min(old.length, now.length) && old[same] === now[same]) same++;
  let end = 0;
  while (end < Math.min(old.length, now.length) - same && old.at(-1 - end) === now.at(-1 - end)) end++;
  const around = (line: string | undefined) => (line === undefined || line === '' ? [] : [`  ${line}`]);
  return [
    ...around(old[same - 1]),
    ...old.slice(same, old.length - end).map((line) => styleText('red', `- ${line}`)),
    ...now.slice(same, now.length - end).map((line) => styleText('green', `+ ${line}`)),
    ...around(end === 0 ? undefined : old[old.length - end]),
  ];
}
