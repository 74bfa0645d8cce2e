import type { Bus } from '../bus/bus.ts';
import type { SharedLog } from '../bus/shared-log.ts';
import type { SharedState } from '../bus/shared-state.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { Room } from '../model/gateway-error.ts';
import type { UpstreamEvents, Upstreams } from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import type { Sealing } from '../model/sealing.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { NodeView } from './nodes/node-state.ts';
import type { Claim } from './ownership/own-claims.ts';

/** What the cluster needs of the servers of this node. */
export interface LocalUpstreams extends Upstreams {
  apply(servers: ReadonlyMap<string, Server>): Promise<void>;
  /** It could not be started, or not again, and is not up at the moment; or not for this client, a moment ago. */
  failing(server: string, client?: ClientProfile | null): boolean;
  /** Calls that its servers have in hand. */
  readonly inFlight: number;
  /** What a further process of it would take here, by the limits of this node. */
  room(server: string): Room;
  /** It was heard elsewhere that the server's lists are others: lists it anew. Resolves when that is done or has failed. */
  relist(server: string): Promise<void>;
  /** As `relist`, at once, for this client and where it can be over its own connection. */
  relistFor(server: string, client: ClientProfile): Promise<void>;
  /** The kinds of client for which something is known of the server. */
  listedFor(server: string): readonly ClientProfile[];
  /** What its processes list that serve one client each, by session key, where that is not what a fresh one lists. */
  ownLists(server: string): ReadonlyMap<string, ServerCatalog>;
  /** Ends at once what serves this client at the server, what serves no client yet, or (null) everything. */
  surrender(server: string, whose: ClientProfile | 'spare' | null): Promise<void>;
  /** Ends in good order what serves this client at the server, or (null) everything. Resolves when nothing is left of it. */
  handOver(server: string, whose: ClientProfile | null): Promise<void>;
}

export interface ClusterDeps {
  readonly bus: Bus;
  readonly state: SharedState;
  /** Where what is said on clients' streams outlives the node; without it, it does not. */
  readonly log?: SharedLog;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** The operator's name for this node. */
  readonly node: string;
  readonly version: string;
  /** Whether what is owned is served on while the bus is gone, at the risk of two owners. Default: fence. */
  readonly onBusLoss?: 'fence' | 'serve';
  /** Known to the nodes only. */
  readonly key: Buffer;
  /** Keys of secrets that are still believed, while the secret is being changed. */
  readonly previousKeys?: readonly Buffer[];
  /** Opens what other nodes have sealed. */
  readonly sealing: Sealing;
  /** This node's gateway. */
  readonly events: UpstreamEvents;
  /** The servers of this node; not read before `Cluster.attach`. */
  readonly local: LocalUpstreams;
  /** Watches the event loop from a thread of its own; not in tests with a clock of theirs. */
  readonly watchLoop?: boolean;
}

/** How a lease came back: other nodes cannot have taken what it covers (`in time`), or may have. */
export type Regained = 'in time' | 'anew';

/** What happens to this node and concerns several of its parts. The parts call it, `Cluster` implements it. */
export interface ThisNode {
  /** What this node says of itself, now. */
  readonly view: NodeView;
  /** The lease is over, by the clock of this node. */
  leaseOver(): void;
  /** The lease is held, for the first time or again. What it covers counts only when this has resolved. */
  leaseRegained(how: Regained): Promise<void>;
  /** Another node owns it now: what served it here ends. */
  claimLost(claim: Claim): void;
  /** A node came, went, or changed its state, its epoch or its advertisement. */
  nodesChanged(): void;
  /** The node is gone: not heard of, or `left` in good order. */
  nodeGone(node: NodeView, left: boolean): void;
  /** A node that was gone already says that it leaves. */
  nodeLeaves(node: NodeView): void;
  /** Other nodes may have taken this one for gone: it stood still, or was cut off. */
  backAgain(): void;
  /** Messages of other nodes may have been lost. */
  missed(): void;
  /** What other nodes advertise, or what is known of lost ones, has changed. */
  serversChanged(): void;
}
