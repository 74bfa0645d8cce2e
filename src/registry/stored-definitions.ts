import type { StoredSecrets } from '../config/document/expand.ts';
import { FileChecks } from '../config/files/file-checks.ts';
import { type DefinitionResult, loadDefinition } from '../config/load-definition.ts';
import type { ConfigProblem } from '../config/problem/problem.ts';
import type { Need } from '../config/server/definition-needs.ts';
import { misconfiguredServer } from '../config/server/plain-server.ts';
import type { Clock } from '../model/clock.ts';
import { RUN_TIME, type Server } from '../model/server.ts';
import type { Applied, RunTimeStore } from '../store/run-time-store/run-time-store.ts';
import type { Logger } from '../telemetry/logger.ts';

/** The definition of a server that was added at run time, as it was written. */
export interface SubmittedDefinition {
  /** JSON text as received: references stay references, and are resolved at every start. */
  readonly text: string;
  /** Base folder of its relative paths. */
  readonly folder: string;
  /** Written without the right `servers:exec`; absent in records of older versions. */
  readonly publicOnly?: boolean;
}

interface StoredRecord extends SubmittedDefinition {
  readonly name: string;
  /** Wall-clock milliseconds. */
  readonly addedAt: number;
  readonly changedAt: number;
}

/** The desired servers in the store, at one instant. */
interface StoredState {
  /** Revision of the last change in any collection; never lower in a later reading. */
  readonly revision: number;
  readonly servers: ReadonlyMap<string, StoredRecord & { readonly revision: number }>;
  /** Names of servers, including servers of files, that must not run until they are resumed. */
  readonly suspended: Set<string>;
}

export const SERVERS = 'server';
const SUSPENDED = 'suspended';

/** Servers added at run time and suspensions in the run-time store. Every change is one transaction (F36). */
export class StoredServers {
  readonly #runTimeStore: RunTimeStore;

  constructor(runTimeStore: RunTimeStore) {
    this.#runTimeStore = runTimeStore;
  }

  async read(): Promise<StoredState> {
    const { revision, records } = await this.#runTimeStore.read([SERVERS, SUSPENDED]);
    const servers = new Map<string, StoredRecord & { readonly revision: number }>();
    for (const [name, record] of records.get(SERVERS)!) {
      servers.set(name, { name, ...parsed(record.value), revision: record.revision });
    }
    return { revision, servers, suspended: new Set(records.get(SUSPENDED)!.keys()) };
  }

  /** Not applied if the record has another revision than expected; null: if there is a record. */
  put({ name, ...rest }: StoredRecord, expected: number | null): Promise<Applied> {
    return this.#runTimeStore.apply([
      { kind: 'put', collection: SERVERS, key: name, value: JSON.stringify(rest), expected },
    ]);
  }

  /** Also deletes the suspension, so that a later server of this name starts; `keepsSuspension`: a file has such a server. */
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
 * A record of another shape was written by another version: its text becomes an unreadable definition, so only that server
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
    // Treated as a record of another shape.
  }
  return { text: value, folder: '/', addedAt: 0, changedAt: 0 };
}

export interface StoredEntry {
  readonly stored: StoredRecord & { readonly revision: number };
  /** As last read without problems; misconfigured if it never was. */
  readonly server: Server;
  /** Why it cannot be read now; empty if it can. */
  readonly problems: readonly ConfigProblem[];
  /** Whether it reads variables or files, so that the same text may have another meaning later. */
  readonly reads: boolean;
}

/** The sources of references in definitions. */
export interface DefinitionSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The stored secrets; absent if there are none. */
  readonly secrets?: StoredSecrets;
  readonly logger: Pick<Logger, 'addSecret'>;
  readonly clock: Clock;
  /** Checks a file, as for `FileChecks`. */
  readonly look?: (file: string) => Promise<void>;
}

/** Number of definitions that are read before other work gets a turn. */
const AT_ONCE = 25;

/** The parsed stored definitions. An unreadable one stays as it was, as in a file (F37), unless it lacks a secret. */
export class StoredDefinitions {
  entries = new Map<string, StoredEntry>();
  readonly #deps: DefinitionSources;
  readonly #files: FileChecks;

  constructor(deps: DefinitionSources) {
    this.#deps = deps;
    this.#files = new FileChecks(deps.clock, deps.look);
  }

  /** `mayRead` as in `loadDefinition`. */
  async read(
    { text, folder, publicOnly }: SubmittedDefinition,
    name: string | null,
    mayRead: (reads: readonly Need[]) => void = () => {},
  ): Promise<DefinitionResult> {
    const { env, secrets: stored, logger } = this.#deps;
    const responds = (file: string) => this.#files.responds(file);
    const result = await loadDefinition({ text, name, folder, env, stored, mayRead, responds });
    // The log must know the secrets before the server is used.
    for (const secret of result.secrets) logger.addSecret(secret);
    return result.ok && publicOnly === true ? { ...result, server: withinPublic(result.server) } : result;
  }

  /** Takes over the content of the store; unchanged definitions are not read again. */
  async follow(desire: StoredState): Promise<void> {
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

  /** Adds a definition that was just written. */
  put(stored: StoredEntry['stored'], result: DefinitionResult): void {
    this.entries.set(stored.name, entryOf(stored, result, null));
  }
}

/** The digest differs from that of the same definition with more rights, so they share no connections. */
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

/** The server of the definition; misconfigured if the definition is invalid. */
export function serverOf(name: string, text: string, result: DefinitionResult): Server {
  if (result.ok) return result.server;
  return misconfiguredServer(name, { file: RUN_TIME, line: 1, column: 1 }, result.problems, text.includes('"url"'));
}
