import { existsSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { styleText } from 'node:util';
import { clientsHere } from '../../app/clients/clients.ts';
import { folderOf } from '../../config/client.ts';
import { DEFAULTS } from '../../config/defaults.ts';
import { inputVariable } from '../../config/document/expand.ts';
import { answerInputs, type DeclaredInputs, type InputPrompt, rememberInputs } from '../../config/document/inputs.ts';
import { loadConfig } from '../../config/load-config.ts';
import { isSelfReference } from '../../config/server/is-self-reference.ts';
import { offeredInputs } from '../../config/server/offered-inputs.ts';
import { withoutSecrets } from '../../config/server/without-secrets.ts';
import { type AuthSpec, PLAIN_AUTH } from '../../model/credentials.ts';
import { portOf } from '../../model/host-address.ts';
import { printable } from '../../model/printable.ts';
import { revealed, Secret } from '../../model/secret.ts';
import type { Server } from '../../model/server.ts';
import { findRunning } from '../access/find-running.ts';
import { type CommandInput, confirm, print } from '../command-input.ts';
import { isRefusal, removeSecrets, storeSecrets } from '../credentials/store-secrets.ts';
import { EXIT, type ExitCode, usage } from '../exit-code.ts';
import { serverChanges } from '../servers/server-changes.ts';
import { storedOptions } from '../sources.ts';
import { urlOfStopped } from './link.ts';
import { linksOf } from './links.ts';

/** Files of projects, read in addition to those of the user's clients. */
const OF_PROJECTS = [
  '.mcp.json',
  '.vscode/mcp.json',
  '.cursor/mcp.json',
  '.codex/config.toml',
  '.gemini/settings.json',
  'opencode.json',
  'opencode.jsonc',
];

export interface ImportInput extends CommandInput {
  /** Files to read; empty for those of all clients that exist. */
  readonly files: readonly string[];
  readonly yes: boolean;
}

/** A definition as `add` accepts it: values are texts that may contain references. */
interface ImportedDefinition {
  readonly command?: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly url?: string;
  readonly [key: string]: unknown;
}

interface ImportedServer {
  readonly name: string;
  readonly definition: ImportedDefinition;
  /** Clients, or files, that have this server. */
  readonly from: string[];
  /** The inputs that its file declares, and how to ask for them; null without a terminal. */
  readonly inputs: DeclaredInputs;
  readonly ask: InputPrompt | null;
  /** Secrets that the definition refers to. */
  readonly secrets: Map<string, string>;
}

interface ImportCandidates {
  readonly take: readonly ImportedServer[];
  /** Servers or files that are not taken, with the reason. */
  readonly left: readonly (readonly [string, string])[];
  /** A file that the user named was not read. */
  readonly unread: boolean;
}

/** `trunkline import`: adds the servers of all clients of this machine, each once; their secrets go to the secret store. */
export async function importServers(input: ImportInput): Promise<ExitCode> {
  const { terminal, yes } = input;
  const found = await collect(input);
  if (found === null) throw usage('no client with a file of servers was found on this machine; name a file');
  const changes = await serverChanges(input, false);
  const there = new Set<string>();
  try {
    for (const { name } of found.take) if ((await changes.server(name)) !== null) there.add(name);
  } finally {
    await changes.close();
  }
  const take = found.take.filter(({ name }) => !there.has(name));
  const left = [...found.left, ...[...there].map((name) => [name, 'there is a server of this name already'] as const)];
  if (input.flags.json !== true) terminal.out(plan(take, left));
  if (take.length > 0 && !yes && !(await confirmImport(input, take.length))) return EXIT.usage;
  const { filled, lacking } = await fillInputs(input, take);
  const failed = filled.length === 0 ? lacking : [...lacking, ...(await addServers(input, filled))];
  const added = filled.map(({ name }) => name).filter((name) => !failed.some(([one]) => one === name));
  const facts = {
    added,
    secrets: [...secretsOf(filled).keys()],
    left: [...left, ...failed].map(([name, reason]) => ({ name, reason })),
  };
  print(input, facts, () => done(added, failed));
  return failed.length > 0 || found.unread ? EXIT.usage : EXIT.ok;
}

/** null if no client has a file. */
async function collect(input: ImportInput): Promise<ImportCandidates | null> {
  const { files, terminal } = input;
  const { cwd, env } = terminal;
  const own = await ownAddresses(input);
  const named = files.map((file) => ({ file: resolve(cwd, file), title: file }));
  const ofClients = clientsHere(env).flatMap((client) => client.files.map((file) => ({ file, title: client.title })));
  const ofProjects = OF_PROJECTS.map((file) => ({ file: resolve(cwd, file), title: file }));
  // In the home folder some files are those of clients.
  const all = [...new Map([...ofProjects, ...ofClients].map((one) => [one.file, one])).values()];
  const sources = named.length > 0 ? named : all.filter(({ file }) => existsSync(file));
  if (sources.length === 0) return null;
  const byIdentity = new Map<string, ImportedServer>();
  const names = new Map<string, string>();
  const left: [string, string][] = [];
  let unread = false;
  for (const { file, title } of sources) {
    const loaded = await loadConfig({ files: [file], cwd, env, keepsReferences: true });
    if (!loaded.ok) {
      left.push([file, loaded.problems.map(({ message, fix }) => `${message}; ${fix}`).join('; ')]);
      unread ||= named.length > 0;
      continue;
    }
    const { inputs } = loaded;
    const ask = terminal.ask === null ? null : rememberInputs(terminal.ask);
    for (const server of loaded.state.servers.values()) {
      const reason = skipReason(server, own);
      const definition = reason === null ? definitionOf(server) : null;
      if (definition === null) {
        left.push([`${server.name} (${title})`, reason ?? `it is of type ${server.transport.type}: add it by hand`]);
        continue;
      }
      const key = identityOf(definition, folderOf(file));
      const known = byIdentity.get(key);
      if (known !== undefined) {
        known.from.push(title);
        continue;
      }
      const name = freeName(server.name, title, names);
      const secrets = new Map<string, string>();
      const from = [title];
      byIdentity.set(key, { name, definition: withoutSecrets(name, definition, secrets), from, inputs, ask, secrets });
    }
  }
  return { take: [...byIdentity.values()], left, unread };
}

/** The addresses of this gateway, and those that `link` wrote. */
async function ownAddresses(input: CommandInput): Promise<readonly URL[]> {
  const running = await findRunning(input);
  const own = running?.instance.mcpUrl ?? (await urlOfStopped(input, await storedOptions(input), false));
  const links = linksOf(input);
  const linked = clientsHere(input.terminal.env).flatMap(({ id }) => links.get(id)?.entries ?? []);
  return [own, ...linked.map(({ url }) => url ?? own)].flatMap((text) => URL.parse(text) ?? []);
}

function skipReason({ misconfigured, transport, enabled }: Server, own: readonly URL[]): string | null {
  if (misconfigured !== undefined) return misconfigured;
  if (!enabled) return 'it is disabled there';
  const isOwn = own.some(
    (url) =>
      ('url' in transport && transport.url === url.href) ||
      isSelfReference(transport, { host: url.hostname, port: portOf(url) }),
  );
  return isOwn ? 'it is Trunkline itself' : null;
}

/** Equal for definitions that are one server. The folder of the file counts only if an argument is a path in it. */
function identityOf(definition: ImportedDefinition, folder: string): string {
  const { cwd, ...rest } = definition;
  const isPath = (word: string): boolean =>
    /(?:^|=)\.{1,2}(?:[/\\]|$)/.test(word) || (!isAbsolute(word) && existsSync(resolve(folder, word)));
  return JSON.stringify(cwd !== folder || definition.args?.some(isPath) === true ? definition : rest);
}

/** The definition in Trunkline's keys; null for transports that the files of clients do not have. */
function definitionOf(server: Server): ImportedDefinition | null {
  const { transport, description, tools, timeoutMs, startupTimeoutMs } = server;
  const some = <T extends object>(key: string, value: T): object =>
    Object.keys(value).length === 0 ? {} : { [key]: value };
  const common = {
    ...(description === null ? {} : { description }),
    ...(timeoutMs === DEFAULTS.timeoutMs ? {} : { timeoutMs }),
    ...(startupTimeoutMs === undefined ? {} : { startupTimeoutMs }),
    ...(tools.include === null ? {} : { includeTools: [...tools.include] }),
    ...some('excludeTools', [...tools.exclude]),
  };
  if (transport.type === 'stdio' && transport.ssh == null && transport.runAs == null) {
    const { command, args, env, cwd, inheritEnv } = transport;
    const inherited = inheritEnv === false ? {} : { inheritEnv };
    return { command, ...some('args', args), ...some('env', revealed(env)), ...inherited, cwd, ...common };
  }
  if (transport.type !== 'http' && transport.type !== 'sse') return null;
  const type = transport.sseFallback === true ? {} : { type: transport.type };
  const auth = transport.auth === undefined ? {} : { auth: givenAuth(transport.auth) };
  return { url: transport.url, ...type, ...some('headers', revealed(transport.headers)), ...auth, ...common };
}

/** The keys of `auth` that are not the defaults. */
function givenAuth({ exec, ...auth }: AuthSpec): object {
  const given = Object.entries(auth).filter(([key, value]) => value !== PLAIN_AUTH[key as keyof AuthSpec]);
  const texts = given.map(([key, value]) => [key, value instanceof Secret ? value.reveal() : value]);
  if (exec === null) return Object.fromEntries(texts);
  const { command, args, env, timeoutMs } = exec;
  return { ...Object.fromEntries(texts), exec: { command, args, env: revealed(env), timeoutMs } };
}

/** The name, with the client's appended if another server has it. */
function freeName(name: string, title: string, taken: Map<string, string>): string {
  const suffix = title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');
  let free = name;
  for (let i = 1; taken.has(free); i++) free = `${name}-${suffix}${i === 1 ? '' : i}`;
  taken.set(free, title);
  return free;
}

function plan(adding: readonly ImportedServer[], left: ImportCandidates['left']): string {
  const width = Math.max(0, ...adding.map(({ name }) => name.length));
  const lines = adding.map(({ name, definition: { command, args = [], url }, from }) => {
    const what = url ?? [command, ...args].join(' ');
    return `${styleText('green', '+')} ${name.padEnd(width)}  ${printable(what)}  ${styleText('gray', `(${from.join(', ')})`)}`;
  });
  const others = left.map(([name, reason]) => `${styleText('gray', '-')} ${printable(name)}: ${printable(reason)}`);
  const secrets = [...secretsOf(adding).keys()];
  const moved = secrets.length === 0 ? [] : [`to the store of secrets: ${secrets.join(', ')}`];
  return `${[...lines, ...others, ...moved].join('\n')}\n`;
}

async function confirmImport({ terminal }: ImportInput, count: number): Promise<boolean> {
  if (terminal.ask === null) throw usage('nothing was added: add --yes to do it without being asked');
  return confirm(terminal.ask, `Add ${count === 1 ? 'this server' : `these ${count} servers`}?`);
}

function secretsOf(servers: readonly ImportedServer[]): Map<string, string> {
  return new Map(servers.flatMap(({ secrets }) => [...secrets]));
}

type Failures = (readonly [name: string, reason: string])[];

/** Puts the values of inputs, or references to secret ones, into the definitions. */
async function fillInputs(
  { terminal: { env } }: CommandInput,
  servers: readonly ImportedServer[],
): Promise<{ readonly filled: readonly ImportedServer[]; readonly lacking: Failures }> {
  const filled: ImportedServer[] = [];
  const lacking: Failures = [];
  for (const server of servers) {
    const { name, inputs, ask, secrets } = server;
    const text = JSON.stringify(server.definition);
    const prompt: InputPrompt | null =
      ask &&
      (({ id, description }) =>
        ask({ id, description: `${name}: ${description}`, password: inputs.get(id)?.password ?? !inputs.has(id) }));
    const answers = await answerInputs(inputs, text, env, prompt);
    const { complete, referring } = await offeredInputs(inputs, text, {}, Object.fromEntries(answers));
    const definition = JSON.parse(text, (_, value) =>
      typeof value === 'string' ? referring(complete(value), name, secrets) : value,
    );
    const [, id] = /\$\{input:([^}]*)\}/.exec(JSON.stringify(definition)) ?? [];
    if (id === undefined) filled.push({ ...server, definition });
    else {
      const fix = `set ${inputVariable(id)}, or import in a terminal, where it is asked for`;
      lacking.push([name, `its input ${JSON.stringify(id)} has no value; ${fix}`]);
    }
  }
  return { filled, lacking };
}

/** The servers of the clients, as they are written to a file. */
export interface ImportOffer {
  readonly servers: Readonly<Record<string, object>>;
  /** Stores the secrets that the servers refer to with the gateway of `file`; call it before using the servers. */
  storeSecrets(file: string): Promise<unknown>;
}

/** Shows the servers that `import` would add and asks for them; null without any, or if the user does not want them. */
export async function importOffer(input: ImportInput, ask: InputPrompt): Promise<ImportOffer | null> {
  const { err } = input.terminal;
  const found = await collect(input);
  const count = found?.take.length ?? 0;
  if (found === null || count === 0) return null;
  err(plan(found.take, found.left));
  const description = `Put ${count === 1 ? 'this server' : `these ${count} servers`} of your clients into the file?`;
  if (!(await confirm(ask, description))) return null;
  const { filled, lacking } = await fillInputs(input, found.take);
  for (const [name, reason] of lacking) err(`left out  ${name}: ${reason}\n`);
  if (filled.length === 0) return null;
  return {
    servers: Object.fromEntries(filled.map(({ name, definition }) => [name, definition])),
    storeSecrets: (file) => storeSecrets({ ...input, file }, secretsOf(filled), false),
  };
}

/** Adds the servers and resolves with those that failed, with the reason. */
async function addServers(input: ImportInput, adding: readonly ImportedServer[]): Promise<Failures> {
  const fresh = await storeSecrets(input, secretsOf(adding), false);
  const failed: Failures = [];
  const unused: string[] = [];
  const changes = await serverChanges(input, false);
  try {
    for (const { name, definition, secrets } of adding) {
      const options = { ttlMs: null, session: null, replace: false };
      await changes.add(name, definition, options).catch((error: Error) => {
        failed.push([name, error.message]);
        if (isRefusal(error)) unused.push(...fresh.filter((secret) => secrets.has(secret)));
      });
    }
  } finally {
    await changes.close();
  }
  await removeSecrets(input, unused, false);
  return failed;
}

function done(added: readonly string[], failed: readonly (readonly [string, string])[]): string {
  const lines = failed.map(([name, reason]) => `${styleText('red', 'failed')}  ${name}: ${reason}`);
  if (added.length > 0) lines.push(`added ${added.length}; point clients at them with: trunkline link --all`);
  return lines.length === 0 ? 'nothing to add\n' : `${lines.join('\n')}\n`;
}
