import type { Bus } from '../bus/bus.ts';
import type { SharedLog } from '../bus/shared-log.ts';
import type { SharedState } from '../bus/shared-state.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import type { Room } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { MemoryLevel } from '../model/pooled-buffers.ts';
import type { ClientStreams, UpstreamEvents, Upstreams } from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import type { Sealing } from '../model/sealing.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { EventSink, PostAnswer, StreamPost } from '../model/stream-copies.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { NodeView } from './nodes/node-state.ts';
import type { Claim } from './ownership/own-claims.ts';

export interface LocalUpstreams extends Upstreams {
  apply(servers: ReadonlyMap<string, Server>): Promise<void>;
  /** It is down and its last start failed; for this client, if one is given. */
  failing(server: string, client?: ClientProfile | null): boolean;
  readonly inFlight: number;
  room(server: string): Room;
  /** Lists the server again. Resolves when that succeeded or failed. */
  relist(server: string): Promise<void>;
  /** At once, over the client's own connection if it has one. */
  relistFor(server: string, client: ClientProfile): Promise<void>;
  /** By session key: lists of single clients' processes that differ from a fresh process's. */
  ownLists(server: string): ReadonlyMap<string, ServerCatalog>;
  /** Ends at once what serves this client, the warm connection (`spare`), or everything (null). */
  surrender(server: string, whose: ClientProfile | 'spare' | null): Promise<void>;
  /** Ends what serves this client, or everything (null), after its calls. Resolves when nothing is left. */
  handOver(server: string, whose: ClientProfile | null): Promise<void>;
}

/** Which process of a node opened a session, and counts it. */
export interface SessionOpeners {
  /** Null: unknown. */
  openerOf(sessionId: string): string | null;
  /** Where that process is gone, another one has the session from now on, the same for all nodes. */
  passOn(sessionId: string): void;
}

export interface ClusterDeps {
  readonly bus: Bus;
  readonly state: SharedState;
  /** Keeps copies of client streams; without it they end with the node. */
  readonly log?: SharedLog;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** The operator's name for it. */
  readonly node: string;
  readonly version: string;
  /** The process of this node before this one, which has ended; absent and null: unknown. */
  readonly formerPeer?: string | null;
  /** `serve`: without the bus, go on serving what is owned, at the risk of two owners. Default: fence. */
  readonly onBusLoss?: 'fence' | 'serve';
  /** Where other nodes reach the listener of this one; empty before it is open. */
  readonly addresses?: readonly string[];
  /** Asks a node without the bus whether it holds its lease. Never rejects. Absent: it cannot be asked. */
  readonly serves?: (peer: string, addresses: readonly string[]) => Promise<boolean>;
  /** Of this process. */
  readonly memory: { readonly level: MemoryLevel };
  /** Whether the nodes have the secret of this one; absent where they cannot have another. */
  readonly identity?: { readonly refused: string | null; confirm(): Promise<void>; restore(): Promise<void> };
  /** Seals what any node may have to open; 32 bytes, from the cluster's secret. */
  readonly key: Buffer;
  /** Accepted while the secret changes. */
  readonly previousKeys?: readonly Buffer[];
  readonly sealing: Sealing;
  readonly events: UpstreamEvents;
  /** Which node opened a session, where a session keeps its shared process. Absent: each node uses its own process. */
  readonly openers?: (() => SessionOpeners | null) | undefined;
  /** The servers of this node. They and the cluster need each other: it is read when the first call or event comes. */
  readonly local: LocalUpstreams;
  /** Not in tests with an injected clock. */
  readonly watchLoop?: boolean;
}

/** The downstream side of this node, also for clients of other nodes. */
export interface OwnClients extends ClientStreams {
  listening(sessionId: string): boolean;
  /** The sessions with an open stream. */
  listeners(): Iterable<string>;
  /** Continues a call waiting for input. Never rejects. */
  returned(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** Null if the session is not here. */
  clientOf(sessionId: string): ClientProfile | null;
  posted(post: StreamPost): PostAnswer;
  fromElsewhere(sessionId: string, message: Message): void;
  /** False if it did not begin here. */
  resumeFor(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean>;
}

/** A resource that a session has subscribed to; `exposed` is the client's name of it. */
export interface SubscribedResource {
  readonly server: string;
  readonly uri: string;
  readonly exposed: string;
}

/** `later`: the server could not be asked. */
export type SubscribedAgain = 'agreed' | 'refused' | 'later';

/** The gateway of this node. */
export interface OwnSubscriptions {
  givenUp(sessionId: string, server: string, uri: string): void;
  /** Takes another node's subscription over and reports the resource as changed. Never rejects. */
  subscribeAgain(client: ClientProfile, resource: SubscribedResource): Promise<SubscribedAgain>;
  mayHaveChanged(sessionId: string, exposed: string): void;
}

/** The rooms that the cluster leads others to need it to be constructed; they are read when the first call or event comes. */
export interface ClusterParts extends ClusterDeps {
  readonly downstream: OwnClients;
  readonly gateway: OwnSubscriptions;
}

/** Whether other nodes may have taken what the lease covers (`anew`) or not (`in time`). */
export type Regained = 'in time' | 'anew';

/** What happens to this node and concerns several parts. `Cluster` implements it. */
export interface ThisNode {
  readonly view: NodeView;
  /** By this node's clock. */
  leaseOver(): void;
  /** What the lease covers counts only after this has resolved. */
  leaseRegained(how: Regained): Promise<void>;
  leaseHeld(how: Regained): void;
  claimLost(claim: Claim): void;
  /** A node came or went. */
  nodesChanged(): void;
  /** A node is in another state. */
  nodeChanged(node: NodeView): void;
  /** Not heard of, or `left` in good order. */
  nodeGone(node: NodeView, left: boolean): void;
  /** A node already gone announces that it leaves. */
  nodeLeaves(node: NodeView): void;
  /** Other nodes may have considered this one gone. */
  backAgain(): void;
  /** For so long that other nodes may have considered it gone. */
  stoodStill(): void;
  /** Messages may have been lost. */
  missed(): void;
  /** They came, went or changed, here or at the other node; none: nodes came or went. */
  serversChanged(servers?: Iterable<string>, peer?: string): void;
  /** What follows is decided by the servers that are known. */
  serversNeeded(): void;
  /** A node advertises more than this one knows. */
  offerChanged(node: NodeView): void;
}
