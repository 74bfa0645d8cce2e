import type { Bus } from '../bus/bus.ts';
import type { SharedLog } from '../bus/shared-log.ts';
import type { SharedState } from '../bus/shared-state.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import type { ProcessCapacity } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { MemoryLevel } from '../model/pooled-buffers.ts';
import type { ClientStreams, SubscribedAgain, SubscribedResource, UpstreamEvents, Upstreams } from '../model/ports.ts';
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
  /** Whether the server is down after a failed start, or (with `client`) cannot be started for that client. */
  failing(server: string, client?: ClientProfile | null): boolean;
  readonly inFlight: number;
  capacity(server: string): ProcessCapacity;
  /** Lists the server again. Resolves when the listing has succeeded or failed. */
  relist(server: string): Promise<void>;
  /** Lists the server again over the connection that serves this client, if the server is up. Never rejects. */
  relistFor(server: string, client: ClientProfile): Promise<void>;
  /** Lists of single clients' processes that differ from a fresh process's, by session key. */
  ownLists(server: string): ReadonlyMap<string, ServerCatalog>;
  /** Closes at once the connections of this client, the warm one (`spare`), or all (null). */
  surrender(server: string, whose: ClientProfile | 'spare' | null): Promise<void>;
  /** Closes the connections of this client, or all (null), after their calls. Resolves when they are closed. */
  handOver(server: string, whose: ClientProfile | null): Promise<void>;
}

/** Which node process opened a session and counts it. */
export interface SessionOpeners {
  /** Null if unknown. */
  openerOf(sessionId: string): string | null;
  /** If that process is gone, assigns the session to another one; all nodes choose the same. */
  passOn(sessionId: string): void;
}

export interface ClusterDeps {
  readonly bus: Bus;
  readonly state: SharedState;
  /** Keeps copies of client streams; without it, streams end with their node. */
  readonly log?: SharedLog;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Configured name of this node; by default the host name. */
  readonly node: string;
  readonly version: string;
  /** Peer id of this node's previous process, which has ended; absent or null if unknown. */
  readonly formerPeer?: string | null;
  /** `serve`: while the bus is down, keep serving owned processes, at the risk of two owners. Default: `fence`. */
  readonly onBusLoss?: 'fence' | 'serve';
  /** Addresses at which other nodes reach this node's listener; empty before it is open. */
  readonly addresses?: readonly string[];
  /** Asks a node over HTTP whether it holds its lease. Never rejects. Absent: nodes cannot be asked. */
  readonly serves?: (peer: string, addresses: readonly string[]) => Promise<boolean>;
  /** Memory use of this process. */
  readonly memory: { readonly level: MemoryLevel };
  /** Checks that this node has the cluster's secret; absent if nodes cannot have different secrets. */
  readonly identity?: { readonly refused: string | null; confirm(): Promise<void>; restore(): Promise<void> };
  /** The sealing key of all nodes, 32 bytes derived from the cluster's secret. Also keys the digests of definitions. */
  readonly key: Buffer;
  /** Keys of previous secrets, accepted during a secret rotation. */
  readonly previousKeys?: readonly Buffer[];
  readonly sealing: Sealing;
  readonly events: UpstreamEvents;
  /** Present if a session keeps its shared process (`cluster.sharedProcesses`). Absent: each node uses its own process. */
  readonly openers?: (() => SessionOpeners | null) | undefined;
  /** The servers of this node. They and the cluster depend on each other: constructors must not read it. */
  readonly local: LocalUpstreams;
  /** Default true; false in tests with an injected clock. */
  readonly watchLoop?: boolean;
}

/** The downstream side of this node, also for clients of other nodes. */
export interface OwnClients extends ClientStreams {
  listening(sessionId: string): boolean;
  /** The sessions with an open stream. */
  listeners(): Iterable<string>;
  /** Continues a call waiting for input. Never rejects. */
  returned(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** Null if this node does not have the session. */
  clientOf(sessionId: string): ClientProfile | null;
  posted(post: StreamPost): PostAnswer;
  fromElsewhere(sessionId: string, message: Message): void;
  /** Returns false if the stream did not begin at this node. */
  resumeFor(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean>;
}

/** The subscriptions of this node's gateway. */
export interface OwnSubscriptions {
  givenUp(sessionId: string, server: string, uri: string): void;
  /** Takes another node's subscription over and reports the resource as changed. Never rejects. */
  subscribeAgain(client: ClientProfile, resource: SubscribedResource): Promise<SubscribedAgain>;
  mayHaveChanged(sessionId: string, exposed: string): void;
}

/** With the parts of this node that other nodes reach. They depend on the cluster: constructors must not read them. */
export interface ClusterParts extends ClusterDeps {
  readonly downstream: OwnClients;
  readonly gateway: OwnSubscriptions;
}

/** Whether other nodes may have taken what the lease covers (`anew`) or not (`in time`). */
export type Regained = 'in time' | 'anew';

/** Events of this node that concern several of its parts. `Cluster` implements it. */
export interface ThisNode {
  readonly view: NodeView;
  /** The lease has expired by this node's monotonic clock. */
  leaseOver(): void;
  /** The node may use what the lease covers only after this has resolved. */
  leaseRegained(how: Regained): Promise<void>;
  leaseHeld(how: Regained): void;
  claimLost(claim: Claim): void;
  /** A node was found or lost. */
  nodesChanged(): void;
  /** A node's state or lease epoch changed. */
  nodeChanged(node: NodeView): void;
  /** A node is lost: its heartbeats stopped, or (`left`) it announced that it leaves. */
  nodeGone(node: NodeView, left: boolean): void;
  /** A node that this one does not know, or has already lost, announces that it leaves. */
  nodeLeaves(node: NodeView): void;
  /** This node is back after other nodes may have considered it lost. */
  rejoined(): void;
  /** This process was paused for so long that other nodes may have considered it lost. */
  stalled(): void;
  /** Messages may have been lost. */
  messagesMissed(): void;
  /** Servers were added, removed or changed, at this node or at `peer`. Without `servers`: only nodes changed. */
  serversChanged(servers?: Iterable<string>, peer?: string): void;
  /** Runs a pending update of the routing table now, because the caller depends on it. */
  serversNeeded(): void;
  /** A heartbeat of the node arrived; its `offer` may be newer than the advertisement that this node has read. */
  offerChanged(node: NodeView): void;
}
