import { type DefinitionResult, loadDefinition, RUN_TIME } from '../config/load-definition.ts';
import type { ConfigProblem } from '../config/problem/problem.ts';
import type { Need } from '../config/server/definition-needs.ts';
import { misconfiguredServer } from '../config/server/misconfigured-server.ts';
import type { Server } from '../model/server.ts';
import type { StoredDesire, StoredServer } from './stored-servers.ts';

export interface StoredEntry {
  readonly stored: StoredServer & { readonly revision: number };
  /** As it was last read well; misconfigured where it never was. */
  readonly server: Server;
  /** Why it cannot be read now; empty where it can. */
  readonly problems: readonly ConfigProblem[];
  /** Reads variables or files, so that the same text may mean another thing later. */
  readonly reads: boolean;
}

/** Definitions read before others get their turn. */
const AT_ONCE = 25;

/** The stored definitions, read. One that cannot be read any more stays as it was, as a file's does (F37). */
export class StoredDefinitions {
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #onRead: (result: DefinitionResult) => void;
  #entries: ReadonlyMap<string, StoredEntry> = new Map();

  /** `onRead` is called before a server is used: its secrets must be known to the log by then. */
  constructor(env: Readonly<Record<string, string | undefined>>, onRead: (result: DefinitionResult) => void) {
    this.#env = env;
    this.#onRead = onRead;
  }

  get entries(): ReadonlyMap<string, StoredEntry> {
    return this.#entries;
  }

  /** `mayRead` as of `loadDefinition`. */
  async read(
    { text, folder, publicOnly }: Pick<StoredServer, 'text' | 'folder' | 'publicOnly'>,
    name: string | null,
    mayRead: (reads: readonly Need[]) => void = () => {},
  ): Promise<DefinitionResult> {
    const result = await loadDefinition({ text, name, folder, env: this.#env, mayRead });
    this.#onRead(result);
    return result.ok && publicOnly === true ? { ...result, server: withinPublic(result.server) } : result;
  }

  /** Takes over what the store holds now; what has not changed is not read again. */
  async follow(desire: StoredDesire): Promise<void> {
    const entries = new Map<string, StoredEntry>();
    let count = 0;
    for (const stored of desire.servers.values()) {
      const before = this.#entries.get(stored.name);
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
    this.#entries = entries;
  }

  /** One that has just been written. */
  put(stored: StoredEntry['stored'], result: DefinitionResult): void {
    this.#entries = new Map(this.#entries).set(stored.name, entryOf(stored, result, null));
  }

  delete(name: string): void {
    const entries = new Map(this.#entries);
    entries.delete(name);
    this.#entries = entries;
  }
}

/** Its connections are not those of the same definition with more rights. */
function withinPublic(server: Server): Server {
  const { transport, connectionDigest } = server;
  if (!('url' in transport)) return server;
  return { ...server, transport: { ...transport, publicOnly: true }, connectionDigest: `${connectionDigest}-public` };
}

function entryOf(stored: StoredEntry['stored'], result: DefinitionResult, before: Server | null): StoredEntry {
  if (!result.ok) {
    const { problems } = result;
    const origin = { file: RUN_TIME, line: 1, column: 1 };
    const server = before ?? misconfiguredServer(stored.name, origin, problems, stored.text.includes('"url"'));
    return { stored, server, problems, reads: true };
  }
  return { stored, server: result.server, problems: [], reads: result.needs.some(({ kind }) => kind === 'reads') };
}
