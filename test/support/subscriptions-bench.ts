import type { Bus } from '../../src/bus/bus.ts';
import { MemorySharedState } from '../../src/bus/memory/memory-shared-state.ts';
import type { Bucket, SharedState, StateWatcher } from '../../src/bus/shared-state.ts';
import type { NodeView } from '../../src/cluster/nodes/node-state.ts';
import { type SharedSubscription, SharedSubscriptions } from '../../src/cluster/streams/shared-subscriptions.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import type { SubscribedAgain } from '../../src/model/ports.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { NO_CLIENTS } from './cluster-bench.ts';
import { FakeClock, settled } from './fake-clock.ts';
import { clientOf } from './played-upstreams.ts';

export const SESSION = 'f'.repeat(32);
export const resource = (uri = 'counter://value'): SharedSubscription => ({
  sessionId: SESSION,
  server: 'counter',
  uri,
  exposed: `counter+${uri}`,
});

/** The store as one node sees it: it can hold up events and leave a change without an answer, and counts removals. */
export class SlowHearing implements SharedState {
  removals = 0;
  /** The next change of a record gets no answer; it is stored all the same. */
  losesAnswer = false;
  readonly #state: SharedState;
  #held: (() => void)[] | null = null;

  constructor(state: SharedState) {
    this.#state = state;
  }

  hold(): void {
    this.#held = [];
  }

  release(): void {
    const held = this.#held ?? [];
    this.#held = null;
    for (const hear of held) hear();
  }

  bucket(...args: Parameters<SharedState['bucket']>): Bucket {
    const bucket = this.#state.bucket(...args);
    return {
      name: bucket.name,
      incarnation: bucket.incarnation,
      readIncarnation: () => bucket.readIncarnation(),
      get: (key) => bucket.get(key),
      look: (key) => bucket.look(key),
      create: (key, value) => bucket.create(key, value),
      restore: (key, value) => bucket.restore(key, value),
      update: async (key, value, revision) => {
        const written = await bucket.update(key, value, revision);
        if (!this.losesAnswer) return written;
        this.losesAnswer = false;
        throw new GatewayError('UNKNOWN', 'the store does not answer');
      },
      delete: (key, revision) => {
        this.removals++;
        return bucket.delete(key, revision);
      },
      purgeTombstones: (olderThanMs) => bucket.purgeTombstones(olderThanMs),
      keys: (pattern) => bucket.keys(pattern),
      watch: (pattern, watcher) => bucket.watch(pattern, this.#slowed(watcher)),
    };
  }

  #slowed(watcher: StateWatcher): StateWatcher {
    const hear = (run: () => void): void => void (this.#held === null ? run() : this.#held.push(run));
    return {
      put: (record) => hear(() => watcher.put(record)),
      gone: (key, revision) => hear(() => watcher.gone(key, revision)),
      onBegin: () => hear(() => watcher.onBegin?.()),
      onReady: (...of) => hear(() => watcher.onReady?.(...of)),
    };
  }
}

/** Nodes that share subscriptions, each with a client that listens there or not. */
export class SubscriptionsBench {
  readonly clock = new FakeClock();
  readonly state = new MemorySharedState(this.clock);
  readonly there = new Set<string>();
  readonly listening = new Set<string>();
  readonly reported: string[] = [];
  answers: SubscribedAgain[] = [];

  async node(self: string, state: SharedState = this.state, maxInAll?: number): Promise<SharedSubscriptions> {
    this.there.add(self);
    const subscriptions = new SharedSubscriptions(
      {
        bus: { peer: self } as Bus,
        state,
        clock: this.clock,
        logger: Logger.silent(),
        downstream: { ...NO_CLIENTS, listening: () => this.listening.has(self), clientOf },
        gateway: {
          subscribeAgain: async (_client, { uri }) => {
            this.reported.push(`${self} again ${uri}`);
            return this.answers.shift() ?? 'agreed';
          },
          mayHaveChanged: (_sessionId, exposed) => void this.reported.push(`${self} hint ${exposed}`),
          givenUp: (_sessionId, _server, uri) => void this.reported.push(`${self} drop ${uri}`),
        },
      },
      {
        get: (peer) => (this.there.has(peer) ? ({} as NodeView) : null),
        others: () => Array.from(this.there, (peer) => ({ peer }) as NodeView).filter(({ peer }) => peer !== self),
      },
      maxInAll,
    );
    await this.pass(0);
    return subscriptions;
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed <= ms; passed += 50) {
      await this.clock.advance(Math.min(50, ms));
      await settled();
    }
  }

  /** What was reported since the last call. */
  take(): string[] {
    return this.reported.splice(0);
  }

  async records(): Promise<number> {
    const bucket = this.state.bucket('trunkline_subscriptions', { ttlMs: 0 });
    return (await bucket.keys()).length;
  }
}
