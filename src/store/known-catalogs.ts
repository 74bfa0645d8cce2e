import { deserialize, serialize } from 'node:v8';
import type { KnownCatalogs } from '../model/ports.ts';
import type { HandshakeResult, ServerCatalog } from '../model/server-catalog.ts';
import type { StateFile } from './state-file.ts';

const BUCKET = 'catalog';
/** Raised when the shape of ServerCatalog, or what is let into it, changes; older records are then forgotten. */
const FORMAT = 3;
/** Catalogues kept of one server: its definition and its kinds of client may change without end. */
const MAX_OF_SERVER = 128;

/** The handshake result is stored as `hello`. */
type StoredCatalog = Omit<ServerCatalog, 'handshake'> & { readonly hello: HandshakeResult };

type Stored = { readonly format: number; readonly identity: string; readonly catalog: StoredCatalog };

/**
 * Last known catalogues in `state.db`. The pages of a server may be any bytes, so they are kept in V8's structured
 * form, which holds buffers as they are, and not as JSON.
 */
export class SqliteKnownCatalogs implements KnownCatalogs {
  readonly #state: StateFile;
  /** Keys by server, least recently saved first. */
  readonly #keys = new Map<string, Set<string>>();

  constructor(state: StateFile) {
    this.#state = state;
  }

  *load(): Iterable<ServerCatalog & { readonly identity: string }> {
    for (const [key, value] of this.#state.all(BUCKET)) {
      const stored = read(value);
      if (stored === null) {
        this.#state.delete(BUCKET, key);
        continue;
      }
      this.#note(stored.catalog.server, key);
      const { hello, ...catalog } = stored.catalog;
      yield { ...catalog, handshake: hello, identity: stored.identity };
    }
  }

  save(identity: string, catalog: ServerCatalog): void {
    const { handshake: hello, ...rest } = catalog;
    const stored: Stored = { format: FORMAT, identity, catalog: { ...rest, hello } };
    const key = `${catalog.server}\n${identity}\n${catalog.fingerprint}`;
    this.#state.put(BUCKET, key, serialize(stored));
    this.#keys.get(catalog.server)?.delete(key);
    this.#note(catalog.server, key);
  }

  forget(server: string): void {
    this.#keys.delete(server);
    for (const key of this.#state.all(BUCKET).keys()) {
      if (key.startsWith(`${server}\n`)) this.#state.delete(BUCKET, key);
    }
  }

  #note(server: string, key: string): void {
    const keys = this.#keys.get(server) ?? new Set();
    this.#keys.set(server, keys.add(key));
    if (keys.size <= MAX_OF_SERVER) return;
    const oldest = keys.values().next().value!;
    keys.delete(oldest);
    this.#state.delete(BUCKET, oldest);
  }
}

function read(value: Buffer): Stored | null {
  try {
    const stored = deserialize(value) as Stored;
    return stored.format === FORMAT && typeof stored.catalog?.server === 'string' ? stored : null;
  } catch {
    return null;
  }
}
