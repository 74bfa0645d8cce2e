import type { BusServing } from '../../bus/bus.ts';
import { type ClientProfile, callerKey } from '../../model/client-profile.ts';
import type { Server } from '../../model/server.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { singleFlight } from '../coalesced-reads.ts';
import { type ClientText, clientOf, clientText, type Frame, packFrame, unpackFrame } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import {
  CatalogKeys,
  type CatalogText,
  catalogOf,
  catalogText,
  clientEra,
  differing,
  NO_CLIENT,
} from './catalog-codec.ts';
import type { ConsumerNodes } from './consumer-nodes.ts';
import { FirstCatalogs } from './first-catalogs.ts';
import type { RemoteInstance } from './routing-table.ts';

interface CatalogRequest {
  readonly server: string;
  readonly client: ClientText;
  readonly waitMs: number;
  readonly amongOthers?: boolean;
  /** Digest of the catalog that the asker has. */
  readonly known?: string;
  /** The node must not list the server for this. */
  readonly knownOnly?: boolean;
  /** Asks only for the connection key. */
  readonly keyOnly?: boolean;
  /** Asks for the lists of the process behind this connection, if they differ from a fresh process's. */
  readonly ownOf?: string;
}

interface CatalogReply {
  readonly catalog: CatalogText | null;
  readonly key: string | null;
  /** Whether the connection is the client's own; sent only for `keyOnly`. */
  readonly own?: boolean;
  /** The asker's catalog is current; the time of its listing. */
  readonly same?: number;
}

/** A client's connection at the node that serves it. */
export interface KnownConnection {
  readonly key: string | null;
  readonly own: boolean;
}

interface CachedForeignCatalog {
  readonly catalog: ServerCatalog;
  readonly client: ClientProfile;
  readonly generation: number;
  readonly peer: string;
}

const NAME = 'trunkline.catalog';
const MAX_KEPT = 4_096;
const MAX_CALLERS = 65_536;
const MAX_SHARED = 4_096;
const SLACK_MS = 1_000;
/** Pause after a changed catalog could not be read, and how long the next attempt may take beyond `SLACK_MS`. */
const RETRY_MS = 1_000;
const RETRY_WAIT_MS = 4_000;
const MAX_READS = 1_000;

/** What this node shows its clients; an instance is null if this node lists the server. */
export interface ShownCatalogs {
  definition(server: string): Server | undefined;
  knownCatalog(server: string, client: ClientProfile, orOthers?: boolean): ServerCatalog | null;
  instanceOf(server: string): RemoteInstance | null;
  sourceFor(server: string, client: ClientProfile, peer: string): RemoteInstance | null;
}

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'local' | 'events'>;

/**
 * Caches catalogs of other nodes' servers, and reads them again when their node advertises a change. Also caches the key of
 * the connection that serves a client there.
 */
export class ForeignCatalogs {
  readonly #deps: Deps;
  readonly #consumers: ConsumerNodes;
  readonly #shown: ShownCatalogs;
  readonly first: FirstCatalogs;
  readonly #kept = new LruMap<CachedForeignCatalog>(MAX_KEPT);
  readonly #catalogKeys: CatalogKeys;
  /** Connections by caller, then by server. */
  readonly #connections = new LruMap<Map<string, KnownConnection>>(MAX_CALLERS);
  /** Keys of connections that clients share, by era and server. */
  readonly #sharedKeys = { stateful: new LruMap<string>(MAX_SHARED), stateless: new LruMap<string>(MAX_SHARED) };
  readonly #asked = new LruMap<number>(MAX_KEPT);
  readonly #reading = new Map<string, Promise<ServerCatalog | null | undefined>>();
  /** Servers with a changed catalog that was not read and will be read again. */
  readonly #unread = new Set<string>();

  constructor(deps: Deps, consumers: ConsumerNodes, shown: ShownCatalogs) {
    this.#deps = deps;
    this.#consumers = consumers;
    this.#shown = shown;
    this.#catalogKeys = new CatalogKeys(shown);
    this.first = new FirstCatalogs(deps);
    deps.bus.serve(NAME, (serving) => this.#serve(serving), { concurrency: MAX_READS });
  }

  known(server: string, client: ClientProfile): ServerCatalog | null {
    return this.#kept.get(this.#catalogKeys.of(server, client))?.catalog ?? null;
  }

  /** Reads an unknown catalog in the background, once per advertised change. */
  knownAt(instance: RemoteInstance, client: ClientProfile): ServerCatalog | null {
    const { name } = instance.advertised.definition;
    const key = this.#catalogKeys.of(name, client);
    const kept = this.#kept.get(key);
    if (kept?.peer === instance.node.peer) return kept.catalog;
    const asked = `${key}\n${instance.node.peer}`;
    if (this.#asked.peek(asked) !== instance.advertised.catalogs) {
      this.#asked.set(asked, instance.advertised.catalogs);
      void this.read(instance, client);
    }
    return null;
  }

  key(server: string, client: ClientProfile): string | null {
    return this.#connectionOf(server, client)?.key ?? null;
  }

  /** Connection key for a client without a known one, if all clients share a connection. */
  sharedKey(server: string, client: ClientProfile): string | null {
    return this.#sharedKeys[clientEra(client)].get(server) ?? null;
  }

  owns(server: string, client: ClientProfile): boolean {
    return this.#connectionOf(server, client)?.own ?? false;
  }

  /** Learns the client's connection from an answer of the serving node. */
  learn(server: string, client: ClientProfile, key: string | null, own: boolean): void {
    const caller = callerOf(client);
    const ofCaller = this.#connections.get(caller);
    const before = ofCaller?.get(server);
    // Every call runs this, nearly always with known values.
    if (ofCaller === undefined) this.#connections.set(caller, new Map([[server, { key, own }]]));
    else if (before === undefined || before.key !== key || before.own !== own) ofCaller.set(server, { key, own });
    if (key === null) return;
    const shared = this.#sharedKeys[clientEra(client)];
    if (shared.get(server) !== key) shared.set(server, key);
  }

  /** The cached catalog, updated in the background if outdated; otherwise the instance's answer within `waitMs`. */
  async get(
    instance: RemoteInstance,
    client: ClientProfile,
    waitMs: number,
    amongOthers = false,
  ): Promise<ServerCatalog | null> {
    const { name } = instance.advertised.definition;
    const kept = this.#kept.get(this.#catalogKeys.of(name, client));
    const current = kept?.peer === instance.node.peer && kept.generation === instance.advertised.catalogs;
    if (kept !== undefined && current) return kept.catalog;
    const reading = this.read(instance, client, waitMs, amongOthers).then((read) => read ?? null);
    return kept === undefined ? reading : kept.catalog;
  }

  /**
   * The instance's catalog if it differs from `known`; the instance lists nothing for this. Never rejects; null if equal,
   * missing or unreadable.
   */
  async knownThere(
    instance: RemoteInstance,
    client: ClientProfile,
    known: ServerCatalog | null,
  ): Promise<ServerCatalog | null> {
    const digest = known === null ? {} : { known: known.digest };
    const asked = { client: clientText(client), waitMs: 0, knownOnly: true, ...digest };
    return (await this.#answered(instance, asked, catalogIn)) ?? null;
  }

  /** The lists of the process behind this connection of the instance. Never rejects; null if they cannot be read. */
  async ownLists(instance: RemoteInstance, key: string): Promise<ServerCatalog | null> {
    return (await this.#answered(instance, { client: NO_CLIENT, waitMs: 0, ownOf: key }, catalogIn)) ?? null;
  }

  /** Whether that instance has a connection of this client's own. Never rejects. */
  async ownedThere(instance: RemoteInstance, client: ClientProfile): Promise<boolean> {
    const take = ({ header }: Frame<CatalogReply>) => header.own;
    return (await this.#answered(instance, { client: clientText(client), waitMs: 0, keyOnly: true }, take)) === true;
  }

  /** Reads changed catalogs again and notifies clients. Keeps those of servers whose instances are all lost. */
  refresh(isLost: (server: string) => boolean, servers: ReadonlySet<string>, waitMs = 0): void {
    for (const [key, { catalog, client, generation, peer }] of [...this.#kept.entries()]) {
      if (!servers.has(catalog.server)) continue;
      const instance = this.#shown.sourceFor(catalog.server, client, peer);
      if (instance === null) {
        const shown = isLost(catalog.server) || this.#shown.knownCatalog(catalog.server, client) === catalog;
        if (!shown) this.#kept.delete(key);
      } else if (instance.node.peer !== peer || instance.advertised.catalogs !== generation) {
        void this.read(instance, client, waitMs).then((read) => {
          if (read === undefined) this.#refreshLater(isLost, catalog.server);
        });
      }
    }
  }

  #refreshLater(isLost: (server: string) => boolean, server: string): void {
    if (this.#unread.has(server)) return;
    this.#unread.add(server);
    this.#deps.clock.after(RETRY_MS, () => {
      this.#unread.delete(server);
      this.refresh(isLost, new Set([server]), RETRY_WAIT_MS);
    });
  }

  forgetSession(sessionId: string): void {
    this.#connections.delete(sessionId);
  }

  async #serve(serving: BusServing): Promise<void> {
    const { catalog, ...reply } = await this.#replyTo(
      unpackFrame<CatalogRequest>(serving.payload).header,
      serving.from,
    );
    const { text = null, pieces = [] } = catalog === null ? {} : catalogText(catalog);
    serving.answer(packFrame({ catalog: text, ...reply } satisfies CatalogReply, pieces));
  }

  async #replyTo(request: CatalogRequest, from: string) {
    const { local } = this.#deps;
    const { server, waitMs, amongOthers = false, knownOnly = false, keyOnly = false, ownOf } = request;
    const client = clientOf(request.client);
    if (ownOf !== undefined) return { catalog: local.ownLists(server).get(ownOf) ?? null, key: null };
    if (keyOnly) {
      const own = local.ownsConnection(server, client);
      return { catalog: null, key: local.sessionKey(server, client), own };
    }
    if (!knownOnly) this.#consumers.used(server, client, from);
    const asked = this.#shown.definition(server)?.callerSeparation === undefined ? withoutProcess(client) : client;
    const catalog = knownOnly
      ? local.knownCatalog(server, client)
      : await local.catalog(server, asked, waitMs, amongOthers);
    const key = local.sessionKey(server, client);
    const same = catalog !== null && catalog.digest === request.known;
    return same ? { catalog: null, key, same: catalog.listedAt } : { catalog, key };
  }

  #connectionOf(server: string, client: ClientProfile): KnownConnection | undefined {
    return this.#connections.get(callerOf(client))?.get(server);
  }

  /** Reads the catalog even if it is cached. Never rejects; null if there is none, undefined without an answer. */
  read(
    instance: RemoteInstance,
    client: ClientProfile,
    waitMs = 0,
    amongOthers = false,
  ): Promise<ServerCatalog | null | undefined> {
    const { peer } = instance.node;
    const { catalogs: generation, definition } = instance.advertised;
    const server = definition.name;
    const catalogKey = this.#catalogKeys.of(server, client);
    return singleFlight(this.#reading, `${catalogKey}\n${peer}\n${generation}\n${amongOthers}`, () => {
      const first = this.first.get(server);
      const before =
        this.#kept.peek(catalogKey)?.catalog ??
        (first === null ? undefined : { ...first, fingerprint: client.fingerprint });
      const known = before === undefined ? {} : { known: before.digest };
      return this.#answered(instance, { client: clientText(client), waitMs, amongOthers, ...known }, (answer) => {
        this.learn(server, client, answer.header.key, this.owns(server, client));
        const catalog = catalogIn(answer, before);
        if (catalog === null) return null;
        const seen = this.#shown.knownCatalog(server, client, true);
        this.#kept.set(catalogKey, { catalog, client, generation, peer });
        if (seen?.digest !== catalog.digest) {
          this.#deps.events.catalogChanged(server, catalog.fingerprint, differing(seen, catalog));
        }
        return catalog;
      });
    });
  }

  /** Asks the instance and passes its answer to `take`. Never rejects; undefined without an answer. */
  async #answered<T>(
    { node, advertised }: RemoteInstance,
    asked: Omit<CatalogRequest, 'server'>,
    take: (answer: Frame<CatalogReply>) => T,
  ): Promise<T | undefined> {
    const server = advertised.definition.name;
    const request: CatalogRequest = { server, ...asked };
    try {
      const options = { to: node.peer, deadlineMs: asked.waitMs + SLACK_MS };
      const outcome = await this.#deps.bus.call(NAME, packFrame(request), options).outcome;
      if (outcome.kind === 'failure') throw outcome.error;
      return take(unpackFrame<CatalogReply>(outcome.payload));
    } catch (error) {
      this.#deps.logger.debug('foreign_list_failed', { server, node: node.id, error: String(error) });
      return undefined;
    }
  }
}

function catalogIn({ header, pieces }: Frame<CatalogReply>, before?: ServerCatalog): ServerCatalog | null {
  const { catalog, same } = header;
  if (same === undefined || before === undefined) return catalog === null ? null : catalogOf(catalog, pieces);
  return same === before.listedAt ? before : { ...before, listedAt: same };
}

/** Key of a client in `#connections`. */
function callerOf(client: ClientProfile): string {
  const key = callerKey(client, 'session');
  return client.forwarded === undefined ? key : `${key} ${JSON.stringify(client.forwarded)}`;
}

/** The same kind of client without a process, which sees the lists of a fresh process. */
function withoutProcess(client: ClientProfile): ClientProfile {
  const sessionId = client.sessionId === null ? null : '';
  return { ...client, sessionId, handle: null, principal: { ...client.principal, id: '' } };
}
