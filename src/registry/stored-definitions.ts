import type { StoredSecrets } from '../config/document/expand.ts';
import { type DefinitionResult, loadDefinition } from '../config/load-definition.ts';
import type { ConfigProblem } from '../config/problem/problem.ts';
import type { Need } from '../config/server/definition-needs.ts';
import { misconfiguredServer } from '../config/server/plain-server.ts';
import { RUN_TIME, type Server } from '../model/server.ts';
import type { Applied, RunTimeStore } from '../store/run-time-store/run-time-store.ts';
import type { Logger } from '../telemetry/logger.ts';

/** The definition of a server that was added at run time, as it was written then. */
export interface WrittenText {
  /** The definition, JSON text as it came: references are kept as references, and read anew at every start. */
  readonly text: string;
  /** Folder that its relative paths start from. */
  readonly folder: string;
  /** Written without the right `servers:exec`; absent in what older versions wrote. */
  readonly publicOnly?: boolean;
}

interface StoredRecord extends WrittenText {
  readonly name: string;
  /** Wall-clock milliseconds. */
  readonly addedAt: number;
  readonly changedAt: number;
}

/** What the store says that should run, at one instant. */
interface StoredDesire {
  /** Of the last change of all: a later reading never has a lower one. */
  readonly revision: number;
  readonly servers: ReadonlyMap<string, StoredRecord & { readonly revision: number }>;
  /** Names of servers, of files too, that are not to run until they are resumed. */
  readonly suspended: Set<string>;
}

export const SERVERS = 'server';
const SUSPENDED = 'suspended';

/** Servers added at run time and suspensions, over the truth. Every change is one transaction (F36). */
export class StoredServers {
  readonly #runTimeStore: RunTimeStore;

  constructor(runTimeStore: RunTimeStore) {
    this.#runTimeStore = runTimeStore;
  }

  async read(): Promise<StoredDesire> {
    const { revision, records } = await this.#runTimeStore.read([SERVERS, SUSPENDED]);
    const servers = new Map<string, StoredRecord & { readonly revision: number }>();
    for (const [name, record] of records.get(SERVERS)!) {
      servers.set(name, { name, ...parsed(record.value), revision: record.revision });
    }
    return { revision, servers, suspended: new Set(records.get(SUSPENDED)!.keys()) };
  }

  /** Not applied where its revision is not the expected one; null: where there is one of that name. */
  put({ name, ...rest }: StoredRecord, expected: number | null): Promise<Applied> {
    return this.#runTimeStore.apply([
      { kind: 'put', collection: SERVERS, key: name, value: JSON.stringify(rest), expected },
    ]);
  }

  /** With its suspension, a later one of its name begins anew; `keepsSuspension` where a file has one of that name. */
  remove(name: string, revision: number, keepsSuspension = false): Promise<Applied> {
    const server = { kind: 'delete', collection: SERVERS, key: name, expected: revision } as const;
    const suspension = { kind: 'delete', collection: SUSPENDED, key: name } as const;
    return this.#runTimeStore.apply(keepsSuspension ? [server] : [server, suspension]);
  }

  suspend(name: string, at: number): Promise<Applied> {
    return this.#runTimeStore.apply([{ kind: 'put', collection: SUSPENDED, key: name, value: JSON.stringify({ at }) }]);
  }

  resume(name: string): Promise<Applied> {
    return this.#runTimeStore.apply([{ kind: 'delete', collection: SUSPENDED, key: name }]);
  }
}

/**
 * A record of another shape comes from another version: its text becomes an unreadable definition, and only that server
 * does not run.
 */
function parsed(value: string): Omit<StoredRecord, 'name'> {
  try {
    const { text, folder, publicOnly, addedAt, changedAt } = JSON.parse(value) as Record<string, unknown>;
    if (typeof text === 'string' && typeof folder === 'string') {
      const written = { text, folder, addedAt: Number(addedAt), changedAt: Number(changedAt) };
      return publicOnly === true ? { ...written, publicOnly } : written;
    }
  } catch {
    // As one of another shape.
  }
  return { text: value, folder: '/', addedAt: 0, changedAt: 0 };
}

export interface StoredEntry {
  readonly stored: StoredRecord & { readonly revision: number };
  /** As it was last read well; misconfigured where it never was. */
  readonly server: Server;
  /** Why it cannot be read now; empty where it can. */
  readonly problems: readonly ConfigProblem[];
  /** Reads variables or files, so that the same text may mean another thing later. */
  readonly reads: boolean;
}

/** What references of definitions stand for. */
export interface DefinitionSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Those that are stored now; absent where none are. */
  readonly secrets?: StoredSecrets;
  readonly logger: Pick<Logger, 'addSecret'>;
}

/** Definitions read before others get their turn. */
const AT_ONCE = 25;

/** The stored definitions, read. One that cannot be read any more stays as it was, as a file's does (F37), unless it lacks a secret. */
export class StoredDefinitions {
  entries = new Map<string, StoredEntry>();
  readonly #deps: DefinitionSources;

  constructor(deps: DefinitionSources) {
    this.#deps = deps;
  }

  /** `mayRead` as of `loadDefinition`. */
  async read(
    { text, folder, publicOnly }: WrittenText,
    name: string | null,
    mayRead: (reads: readonly Need[]) => void = () => {},
  ): Promise<DefinitionResult> {
    const { env, secrets: stored, logger } = this.#deps;
    const result = await loadDefinition({ text, name, folder, env, stored, mayRead });
    // Known to the log before the server is used.
    for (const secret of result.secrets) logger.addSecret(secret);
    return result.ok && publicOnly === true ? { ...result, server: withinPublic(result.server) } : result;
  }

  /** Takes over what the store holds now; what has not changed is not read again. */
  async follow(desire: StoredDesire): Promise<void> {
    const entries = new Map<string, StoredEntry>();
    let count = 0;
    for (const stored of desire.servers.values()) {
      const before = this.entries.get(stored.name);
      const same =
        before?.stored.text === stored.text &&
        before.stored.folder === stored.folder &&
        before.stored.publicOnly === stored.publicOnly;
      if (same && !before.reads) {
        entries.set(stored.name, { ...before, stored });
        continue;
      }
      const result = await this.read(stored, stored.name);
      entries.set(stored.name, entryOf(stored, result, same ? before.server : null));
      if (++count % AT_ONCE === 0) await new Promise((done) => setImmediate(done));
    }
    this.entries = entries;
  }

  /** One that has just been written. */
  put(stored: StoredEntry['stored'], result: DefinitionResult): void {
    this.entries.set(stored.name, entryOf(stored, result, null));
  }
}

/** Its connections are not those of the same definition with more rights. */
export function withinPublic(server: Server): Server {
  const { transport, connectionDigest } = server;
  if (!('url' in transport)) return server;
  return { ...server, transport: { ...transport, publicOnly: true }, connectionDigest: `${connectionDigest}-public` };
}

function entryOf(stored: StoredEntry['stored'], result: DefinitionResult, before: Server | null): StoredEntry {
  if (result.ok) {
    const reads = result.needs.some(({ kind }) => kind === 'reads');
    return { stored, server: result.server, problems: [], reads };
  }
  const { problems } = result;
  const good = problems.some(({ code }) => code === 'TL1208') ? null : before;
  return { stored, server: good ?? serverOf(stored.name, stored.text, result), problems, reads: true };
}

/** Misconfigured where the definition is wrong. */
export function serverOf(name: string, text: string, result: DefinitionResult): Server {
  if (result.ok) return result.server;
  return misconfiguredServer(name, { file: RUN_TIME, line: 1, column: 1 }, result.problems, text.includes('"url"'));
}
