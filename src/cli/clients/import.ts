import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { styleText } from 'node:util';
import { clientsHere, DEFAULT_URL } from '../../app/clients/clients.ts';
import { DEFAULTS } from '../../config/defaults.ts';
import { loadConfig } from '../../config/load-config.ts';
import { isSelfReference } from '../../config/server/is-self-reference.ts';
import { withoutSecrets } from '../../config/server/without-secrets.ts';
import { printable } from '../../model/printable.ts';
import type { Server } from '../../model/server.ts';
import { findRunning } from '../access/find-running.ts';
import { type CommandInput, confirm, print } from '../command-input.ts';
import { isRefusal, removeSecrets, storeSecrets } from '../credentials/store-secrets.ts';
import { EXIT, type ExitCode, usage } from '../exit-code.ts';
import { serverChanges } from '../servers/server-changes.ts';

/** Files of projects, read in addition to those of the user's clients. */
const OF_PROJECTS = [
  '.mcp.json',
  '.vscode/mcp.json',
  '.cursor/mcp.json',
  '.codex/config.toml',
  '.gemini/settings.json',
  'opencode.json',
];

export interface ImportInput extends CommandInput {
  /** Files to read; empty for those of all clients that exist. */
  readonly files: readonly string[];
  readonly yes: boolean;
}

/** A definition as `add` accepts it: values are texts that may contain references. */
type Definition = Record<string, unknown> & { env?: Record<string, string>; headers?: Record<string, string> };

interface ImportedServer {
  readonly name: string;
  readonly definition: Definition;
  /** Clients, or files, that have this server. */
  readonly from: string[];
}

interface ImportCandidates {
  readonly take: readonly ImportedServer[];
  /** Servers or files that are not taken, with the reason. */
  readonly left: readonly (readonly [string, string])[];
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
  const secrets = new Map<string, string>();
  const adding = take.map(({ name, definition, ...rest }) => ({
    ...rest,
    name,
    definition: withoutSecrets(name, definition, secrets),
  }));
  if (input.flags.json !== true) terminal.out(plan(adding, left, [...secrets.keys()]));
  if (adding.length > 0 && !yes && !(await confirmImport(input, adding.length))) return EXIT.usage;
  const failed = adding.length === 0 ? [] : await addServers(input, adding, secrets);
  const added = adding.map(({ name }) => name).filter((name) => !failed.some(([one]) => one === name));
  const facts = {
    added,
    secrets: [...secrets.keys()],
    left: [...left, ...failed].map(([name, reason]) => ({ name, reason })),
  };
  print(input, facts, () => done(added, failed));
  return failed.length > 0 ? EXIT.usage : EXIT.ok;
}

/** null if no client has a file. */
async function collect(input: ImportInput): Promise<ImportCandidates | null> {
  const { files, terminal } = input;
  const { cwd, env } = terminal;
  const own = (await findRunning(input))?.instance.mcpUrl ?? DEFAULT_URL;
  const named = files.map((file) => ({ file: resolve(cwd, file), title: file }));
  const ofClients = clientsHere(env).flatMap((client) => client.files.map((file) => ({ file, title: client.title })));
  const ofProjects = OF_PROJECTS.map((file) => ({ file: resolve(cwd, file), title: file }));
  const sources = named.length > 0 ? named : [...ofClients, ...ofProjects].filter(({ file }) => existsSync(file));
  if (sources.length === 0) return null;
  const byTransport = new Map<string, ImportedServer>();
  const names = new Map<string, string>();
  const left: [string, string][] = [];
  for (const { file, title } of sources) {
    const loaded = await loadConfig({ files: [file], cwd, env, keepsReferences: true });
    if (!loaded.ok) {
      left.push([file, loaded.problems.map(({ message, fix }) => `${message}; ${fix}`).join('; ')]);
      continue;
    }
    for (const server of loaded.state.servers.values()) {
      const reason = skipReason(server, own);
      const definition = reason === null ? definitionOf(server) : null;
      if (definition === null) {
        left.push([`${server.name} (${title})`, reason ?? `it is of type ${server.transport.type}: add it by hand`]);
        continue;
      }
      const key = JSON.stringify(definition);
      const known = byTransport.get(key);
      if (known !== undefined) known.from.push(title);
      else byTransport.set(key, { name: freeName(server.name, title, names), definition, from: [title] });
    }
  }
  return { take: [...byTransport.values()], left };
}

function skipReason({ misconfigured, transport, enabled }: Server, own: string): string | null {
  if (misconfigured !== undefined) return misconfigured;
  if (!enabled) return 'it is disabled there';
  const { hostname: host, port } = new URL(own);
  return isSelfReference(transport, { host, port: Number(port) }) ? 'it is Trunkline itself' : null;
}

/** The definition in Trunkline's keys; null for transports that the files of clients do not have. */
function definitionOf(server: Server): Definition | null {
  const { transport, description, tools, timeoutMs, startupTimeoutMs } = server;
  const revealed = (values: Readonly<Record<string, { reveal(): string }>>): Record<string, string> =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.reveal()]));
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
    const { command, args, env, cwd } = transport;
    return { command, ...some('args', args), ...some('env', revealed(env)), cwd, ...common };
  }
  if (transport.type !== 'http' && transport.type !== 'sse') return null;
  const type = transport.sseFallback === true ? {} : { type: transport.type };
  return { url: transport.url, ...type, ...some('headers', revealed(transport.headers)), ...common };
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

function plan(adding: readonly ImportedServer[], left: ImportCandidates['left'], secrets: readonly string[]): string {
  const width = Math.max(0, ...adding.map(({ name }) => name.length));
  const lines = adding.map(({ name, definition, from }) => {
    const { command, args = [], url } = definition as { command?: string; args?: string[]; url?: string };
    const what = url ?? [command, ...args].join(' ');
    return `${styleText('green', '+')} ${name.padEnd(width)}  ${printable(what)}  ${styleText('gray', `(${from.join(', ')})`)}`;
  });
  const others = left.map(([name, reason]) => `${styleText('gray', '-')} ${printable(name)}: ${printable(reason)}`);
  const moved = secrets.length === 0 ? [] : [`to the store of secrets: ${secrets.join(', ')}`];
  return `${[...lines, ...others, ...moved].join('\n')}\n`;
}

async function confirmImport({ terminal }: ImportInput, count: number): Promise<boolean> {
  if (terminal.ask === null) throw usage('nothing was added: add --yes to do it without being asked');
  return confirm(terminal.ask, `Add ${count === 1 ? 'this server' : `these ${count} servers`}?`);
}

/** The servers of the clients, as they are written to a file. */
export interface ImportOffer {
  readonly servers: Readonly<Record<string, object>>;
  /** Text that lists the servers that are taken and those that are not. */
  readonly plan: string;
  /** Stores the secrets that the servers refer to with the gateway of `file`; call it before using the servers. */
  storeSecrets(file: string): Promise<unknown>;
}

/** The servers that `import` would add; null without a file to read. */
export async function importOffer(input: ImportInput): Promise<ImportOffer | null> {
  const found = await collect(input);
  if (found === null) return null;
  const secrets = new Map<string, string>();
  const take = found.take.map((one) => ({ ...one, definition: withoutSecrets(one.name, one.definition, secrets) }));
  return {
    servers: Object.fromEntries(take.map(({ name, definition }) => [name, definition])),
    plan: plan(take, found.left, [...secrets.keys()]),
    storeSecrets: (file) => storeSecrets({ ...input, file }, secrets, false),
  };
}

/** Adds the servers and resolves with those that failed, with the reason. */
async function addServers(
  input: ImportInput,
  adding: readonly ImportedServer[],
  secrets: ReadonlyMap<string, string>,
): Promise<(readonly [string, string])[]> {
  const fresh = await storeSecrets(input, secrets, false);
  const failed: (readonly [string, string])[] = [];
  const unused: string[] = [];
  const changes = await serverChanges(input, false);
  try {
    for (const { name, definition } of adding) {
      const options = { ttlMs: null, session: null, replace: false };
      await changes.add(name, definition, options).catch((error: Error) => {
        failed.push([name, error.message]);
        const text = JSON.stringify(definition);
        if (isRefusal(error)) unused.push(...fresh.filter((secret) => text.includes(`\${secret:${secret}}`)));
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
