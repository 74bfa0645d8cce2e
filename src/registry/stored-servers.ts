import type { Applied, Truth } from '../store/truth/truth.ts';

/** A server that was added at run time, as it was written then. */
export interface StoredServer {
  readonly name: string;
  /** The definition, JSON text as it came: references are kept as references, and read anew at every start. */
  readonly text: string;
  /** Folder that its relative paths start from. */
  readonly folder: string;
  /** Written without the right `servers:exec`; absent in what older versions wrote. */
  readonly publicOnly?: boolean;
  /** Wall-clock milliseconds. */
  readonly addedAt: number;
  readonly changedAt: number;
}

/** What the store says that should run, at one instant. */
export interface StoredDesire {
  /** Of the last change of all: a later reading never has a lower one. */
  readonly revision: number;
  readonly servers: ReadonlyMap<string, StoredServer & { readonly revision: number }>;
  /** Names of servers, of files too, that are not to run until they are resumed. */
  readonly suspended: ReadonlySet<string>;
}

/** The collection of servers that were added at run time. */
export const SERVERS = 'server';
const SUSPENDED = 'suspended';

/** Servers added at run time and suspensions, over the truth. Every change is one transaction (F36). */
export class StoredServers {
  readonly #truth: Truth;

  constructor(truth: Truth) {
    this.#truth = truth;
  }

  async read(): Promise<StoredDesire> {
    const { revision, records } = await this.#truth.read([SERVERS, SUSPENDED]);
    const servers = new Map<string, StoredServer & { readonly revision: number }>();
    for (const [name, record] of records.get(SERVERS)!) {
      servers.set(name, { name, ...parsed(record.value), revision: record.revision });
    }
    return { revision, servers, suspended: new Set(records.get(SUSPENDED)!.keys()) };
  }

  /** Not applied where there is one of that name. */
  add(server: StoredServer): Promise<Applied> {
    return this.#put(server, null);
  }

  /** Not applied where it is not what it was at `revision`. */
  change(server: StoredServer, revision: number): Promise<Applied> {
    return this.#put(server, revision);
  }

  /** With its suspension, a later one of its name begins anew; `keepsSuspension` where a file has one of that name. */
  remove(name: string, revision: number, keepsSuspension = false): Promise<Applied> {
    const server = { kind: 'delete', collection: SERVERS, key: name, expected: revision } as const;
    const suspension = { kind: 'delete', collection: SUSPENDED, key: name } as const;
    return this.#truth.apply(keepsSuspension ? [server] : [server, suspension]);
  }

  suspend(name: string, at: number): Promise<Applied> {
    return this.#truth.apply([{ kind: 'put', collection: SUSPENDED, key: name, value: JSON.stringify({ at }) }]);
  }

  resume(name: string): Promise<Applied> {
    return this.#truth.apply([{ kind: 'delete', collection: SUSPENDED, key: name }]);
  }

  #put({ name, ...rest }: StoredServer, expected: number | null): Promise<Applied> {
    return this.#truth.apply([{ kind: 'put', collection: SERVERS, key: name, value: JSON.stringify(rest), expected }]);
  }
}

/**
 * It was written by us, and its sum is right: another shape is that of another version. Then its own text stands for the
 * definition, which cannot be read either: that server is held back with the reason, and all others run.
 */
function parsed(value: string): Omit<StoredServer, 'name'> {
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
