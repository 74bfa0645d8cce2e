import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { BusServing } from '../../bus/bus.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { clientOf, packFrame, unpackFrame } from '../frames/frame.ts';
import { MAX_INFLATED } from './advertisements.ts';
import { type CatalogText, catalogOf, catalogText, differing, NO_CLIENT } from './catalog-codec.ts';
import type { Place, RemoteInstance } from './routing-table.ts';

const NAME = 'trunkline.catalogs';
const READ_MS = 5_000;
/** Pause after a node did not answer. */
const RETRY_MS = 1_000;
const MAX_SERVERS = 200;
const MAX_BYTES = 8 * 1024 * 1024;

interface CatalogsRequest {
  readonly servers: readonly string[];
  /** The digests that the asker has, in the same order; absent from nodes of earlier versions. */
  readonly known?: readonly (string | null)[];
}

/**
 * The catalogs in the order of the request, each with the number of its pieces, or (`same`) when it was listed if the asker has
 * it; fewer than requested if they are large.
 */
interface CatalogsReply {
  readonly catalogs: readonly (
    | { readonly text: CatalogText; readonly pieces: number }
    | { readonly same: number }
    | null
  )[];
}

interface FirstCatalog {
  readonly peer: string;
  readonly generation: number;
  /** Null if the node has none. */
  readonly catalog: ServerCatalog | null;
}

/**
 * One catalog of each server that this node has not listed, for whichever kind of client another node has listed it. They are
 * read before a client asks, many in one message, so that the first list of a client is complete.
 */
export class FirstCatalogs {
  readonly #deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'local' | 'events'>;
  readonly #kept = new Map<string, FirstCatalog>();
  readonly #wanted = new Map<string, RemoteInstance>();
  readonly #reading = new Set<string>();
  /** Number of catalogs read; it only grows. */
  readings = 0;

  constructor(deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'local' | 'events'>) {
    this.#deps = deps;
    deps.bus.serve(NAME, (serving) => this.#serve(serving));
  }

  get(server: string): ServerCatalog | null {
    return this.#kept.get(server)?.catalog ?? null;
  }

  /** Whether all advertised catalogs were read. */
  get idle(): boolean {
    return this.#reading.size === 0;
  }

  /** Reads the catalog of `instance` if it changed. `instance` is null if this node lists the server itself. */
  look({ server, here, lost }: Place, instance: RemoteInstance | null): void {
    const { name } = server;
    this.#wanted.delete(name);
    if (server.callerSeparation !== undefined || (here && instance === null)) this.#kept.delete(name);
    else if (instance !== null && lost === null) {
      const { peer } = instance.node;
      const { catalogs } = instance.advertised;
      const kept = this.#kept.get(name);
      if (catalogs === 0 || (kept?.peer === peer && kept.generation === catalogs)) return;
      this.#wanted.set(name, instance);
      if (this.#reading.has(peer)) return;
      this.#reading.add(peer);
      queueMicrotask(() => void this.#read(peer));
    }
  }

  forget(server: string): void {
    this.#wanted.delete(server);
    this.#kept.delete(server);
  }

  /** Reads until no catalog of that node is wanted. When a node is lost, its catalogs are wanted of other nodes. */
  async #read(peer: string): Promise<void> {
    for (;;) {
      const wanted = [...this.#wanted].filter(([, { node }]) => node.peer === peer).slice(0, MAX_SERVERS);
      if (wanted.length === 0) {
        this.#reading.delete(peer);
        return;
      }
      const names = wanted.map(([name]) => name);
      const generations = wanted.map(([, { advertised }]) => advertised.catalogs);
      try {
        const catalogs = await this.#ask(peer, names);
        const answered = names.slice(0, Math.max(catalogs.length, 1));
        for (const [i, name] of answered.entries()) this.#take(name, peer, generations[i]!, catalogs[i] ?? null);
      } catch (error) {
        this.#deps.logger.debug('catalogs_not_read', { peer, error: String(error) });
        // Never resolves once the cluster is closed, which ends this loop.
        await new Promise<void>((resolve) => void this.#deps.clock.after(RETRY_MS, resolve));
      }
    }
  }

  /** Rejects if the node does not answer, or if its answer cannot be read. */
  async #ask(peer: string, servers: readonly string[]): Promise<readonly (ServerCatalog | null)[]> {
    const before = servers.map((name) => this.get(name));
    const request: CatalogsRequest = { servers, known: before.map((catalog) => catalog?.digest ?? null) };
    const outcome = await this.#deps.bus.call(NAME, packFrame(request), { to: peer, deadlineMs: READ_MS }).outcome;
    if (outcome.kind === 'failure') throw outcome.error;
    return catalogsIn(outcome.payload, before);
  }

  #take(name: string, peer: string, generation: number, catalog: ServerCatalog | null): void {
    const wanted = this.#wanted.get(name);
    if (wanted === undefined) return;
    // Otherwise it has changed in the meantime and is read again.
    if (wanted.node.peer === peer && wanted.advertised.catalogs === generation) this.#wanted.delete(name);
    const seen = this.get(name);
    this.readings++;
    this.#kept.set(name, { peer, generation, catalog });
    if (catalog === null || seen?.digest === catalog.digest) return;
    this.#deps.events.catalogChanged(name, catalog.fingerprint, differing(seen, catalog));
  }

  #serve(serving: BusServing): void {
    const { local } = this.#deps;
    const client = clientOf(NO_CLIENT);
    const catalogs: CatalogsReply['catalogs'][number][] = [];
    const all: Buffer[] = [];
    let bytes = 0;
    const { servers, known = [] } = unpackFrame<CatalogsRequest>(serving.payload).header;
    for (const [i, name] of servers.entries()) {
      if (bytes >= MAX_BYTES) break;
      const catalog = local.knownCatalog(name, client, true);
      if (catalog === null || catalog.digest === known[i]) {
        catalogs.push(catalog === null ? null : { same: catalog.listedAt });
        continue;
      }
      const { text, pieces } = catalogText(catalog);
      catalogs.push({ text, pieces: pieces.length });
      for (const piece of pieces) bytes += piece.length;
      all.push(...pieces);
    }
    const message = Buffer.concat(packFrame({ catalogs } satisfies CatalogsReply, all));
    serving.answer(packFrame({}, [deflateRawSync(message, { level: 1 })]));
  }
}

function catalogsIn(payload: Buffer, before: readonly (ServerCatalog | null)[]): readonly (ServerCatalog | null)[] {
  const message = inflateRawSync(unpackFrame(payload).pieces[0]!, { maxOutputLength: MAX_INFLATED });
  const { header, pieces } = unpackFrame<CatalogsReply>(message);
  let at = 0;
  return header.catalogs.map((one, i) => {
    if (one === null) return null;
    if ('same' in one) return { ...before[i]!, listedAt: one.same };
    const from = at;
    at += one.pieces;
    return catalogOf(one.text, pieces.slice(from, at));
  });
}
