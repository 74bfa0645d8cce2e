import type { BusServing } from '../../bus/bus.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { every, pause, withTimeout } from '../../model/clock.ts';
import { Counts } from '../../model/counts.ts';
import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { UpstreamEvents } from '../../model/ports.ts';
import { bodyField } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import { text } from '../../protocol/fields.ts';
import { LONGEST_MS } from '../calls/remote-calls.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import type { KnownServers } from '../nodes/known-servers.ts';

/** Limit of known resources; for a forgotten one the first unsubscription ends the subscription. */
const MAX_RESOURCES = 65_536;
const SUBSCRIBE = 'resources/subscribe';
const UNSUBSCRIBE = 'resources/unsubscribe';
const SEPARATOR = '\0';
const NAME = 'trunkline.watched';
/** A node that does not answer in this time counts as watching. */
const ASK_MS = 1_000;
const LOOK_MS = 20;
/** Interval at which a node that holds a resource says so again: a node that has ended its question then says that again. */
const AGAIN_MS = 5_000;
/** Limit of questions that this node holds; beyond it, it counts as watching. */
const MAX_HELD = 10_000;

export function isSubscriptionRequest({ method }: Message): boolean {
  return method === SUBSCRIBE || method === UNSUBSCRIBE;
}

interface GivenUpWatch {
  readonly resource: string;
  readonly node: string;
  /** Whether the asking node has no watcher left. An answering node without one then holds the question until it is cancelled. */
  readonly withdraws: boolean;
}

/** The clients of one node as watchers of a resource. */
interface NodeWatch {
  /** Number of subscriptions without an answer. */
  asking: number;
  /** Whether the server has accepted one. */
  agreed: boolean;
}

interface WatchState {
  readonly watched: boolean;
}

interface WatchQuestion {
  /** Null if the node does not answer. */
  readonly watched: Promise<boolean | null>;
  cancel(reason: string): void;
}

/**
 * Ends a resource subscription of a connection or session that nodes share when the last node gives it up. Each node knows only
 * its own watchers, so the node asks the others. A node without watchers says so and delays new subscriptions until the
 * withdrawal is over, because the withdrawal would end them too. A node that does not answer counts as watching while it is
 * present. A node that counted as gone was not asked: it subscribes again (`renew`).
 */
export class SharedWatches {
  readonly #deps: Pick<ClusterDeps, 'bus' | 'clock'>;
  readonly #events: Pick<UpstreamEvents, 'connectionChanged'>;
  readonly #known: Pick<KnownServers, 'place'>;
  /** By resource, then by node. */
  readonly #nodes = new LruMap<Map<string, NodeWatch>>(MAX_RESOURCES);
  /** Number of withdrawals in progress, by resource. */
  readonly #withdrawn = new Counts();

  constructor(
    deps: Pick<ClusterDeps, 'bus' | 'clock'>,
    events: Pick<UpstreamEvents, 'connectionChanged'>,
    known: Pick<KnownServers, 'place'>,
  ) {
    const { bus, clock } = deps;
    this.#deps = deps;
    this.#events = events;
    this.#known = known;
    const asked = async (serving: BusServing): Promise<void> => {
      const { resource, node, withdraws } = unpackFrame<GivenUpWatch>(serving.payload).header;
      const watched = this.#leave(resource, node);
      const state = packFrame({ watched } satisfies WatchState);
      if (watched || !withdraws || serving.cancelled !== null) {
        serving.answer(state);
        return;
      }
      const { promise: over, resolve } = Promise.withResolvers<void>();
      const stop = every(clock, AGAIN_MS, () => serving.emit(state));
      serving.onCancel = () => {
        stop();
        resolve();
      };
      serving.emit(state);
      await this.#holding(resource, () => over);
    };
    bus.serve(NAME, asked, { concurrency: MAX_HELD });
  }

  /** `key`: session key of the connection; `node`: the node of the client. */
  async run(
    server: string,
    key: string | null,
    { sessionId }: ClientProfile,
    node: string,
    request: Message,
    pass: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const uri = bodyField(request, 'uri');
    // A session's own connection concerns no other client.
    if (uri === null || key === sessionId) return pass();
    const resource = [server, key ?? '', text(request.bytes, uri)].join(SEPARATOR);
    if (request.method === UNSUBSCRIBE) {
      const passed = await this.#giveUp(server, resource, node, pass);
      return passed ?? answer(result('0', '{}', 'stateful'));
    }
    const nodes = this.#nodes.get(resource) ?? new Map<string, NodeWatch>();
    const watch = nodes.get(node) ?? { asking: 0, agreed: false };
    watch.asking++;
    // Before the request, so that a concurrent unsubscription does not end the subscription.
    nodes.set(node, watch);
    this.#nodes.set(resource, nodes);
    while (this.#withdrawn.of(resource) > 0) await pause(this.#deps.clock, LOOK_MS);
    const outcome = await pass();
    watch.asking--;
    if (outcome.kind === 'answer' && outcome.message.kind === 'result') watch.agreed = true;
    const failed = !watch.agreed && watch.asking === 0;
    if (failed && this.#nodes.get(resource)?.get(node) === watch) this.#leave(resource, node);
    return outcome;
  }

  forgetPeer(peer: string): void {
    for (const [resource, nodes] of [...this.#nodes.entries()]) {
      if (nodes.delete(peer) && nodes.size === 0) this.#nodes.delete(resource);
    }
  }

  /** Renews the subscriptions of this node after it was away: other nodes may have ended them. */
  renew(): void {
    const connections = new Map<string, readonly [server: string, key: string]>();
    for (const [resource] of this.#nodes.entries()) {
      const [server, key] = resource.split(SEPARATOR) as [string, string];
      // Not by the other instances, which may still be unknown.
      if (this.#known.place(server)?.process === false) connections.set(`${server}${SEPARATOR}${key}`, [server, key]);
    }
    for (const [server, key] of connections.values()) this.#events.connectionChanged(server, key, 'ended');
  }

  /** Returns null without calling `pass` if another client watches the resource. */
  async #giveUp(server: string, resource: string, node: string, pass: () => Promise<Outcome>): Promise<Outcome | null> {
    const asked = this.#others(server);
    const withdraws = !this.#leave(resource, node);
    // Ask even if the subscription stays: other nodes may list `node` as a watcher too.
    const questions = asked.map((peer) => this.#ask(peer, { resource, node, withdraws }));
    if (!withdraws) return null;
    return this.#holding(resource, async () => {
      const said = await Promise.all(questions.map(({ watched }) => watched));
      const there = this.#others(server);
      const watched = asked.some((peer, i) => said[i] ?? there.includes(peer));
      return watched || this.#nodes.get(resource) !== undefined ? null : await pass();
    }).finally(() => {
      for (const question of questions) question.cancel('the withdrawal is over');
    });
  }

  /** Delays new subscriptions of this node to the resource until `work` has ended. */
  async #holding<T>(resource: string, work: () => Promise<T>): Promise<T> {
    this.#withdrawn.add(resource, 1);
    try {
      return await work();
    } finally {
      this.#withdrawn.add(resource, -1);
    }
  }

  /** The other nodes with the server; none if each runs its own process. */
  #others(server: string): readonly string[] {
    const place = this.#known.place(server);
    return place === undefined || place.process ? [] : place.otherInstances.map(({ node }) => node.peer);
  }

  /** Returns whether clients of other nodes than `node` still watch the resource through this node. */
  #leave(resource: string, node: string): boolean {
    const nodes = this.#nodes.get(resource);
    if (nodes === undefined) return false;
    nodes.delete(node);
    if (nodes.size > 0) return true;
    this.#nodes.delete(resource);
    return false;
  }

  #ask(peer: string, left: GivenUpWatch): WatchQuestion {
    const { bus, clock } = this.#deps;
    const { promise, resolve } = Promise.withResolvers<boolean | null>();
    const onEmit = (payload: Buffer): void => resolve(unpackFrame<WatchState>(payload).header.watched);
    const call = bus.call(NAME, packFrame(left), { to: peer, deadlineMs: LONGEST_MS, onEmit });
    void call.outcome.then((ended) => (ended.kind === 'failure' ? resolve(null) : onEmit(ended.payload)));
    return { watched: withTimeout(clock, ASK_MS, promise, () => null), cancel: (reason) => call.cancel(reason) };
  }
}
