import type { Bus } from '../../bus/bus.ts';
import type { Clock } from '../../model/clock.ts';
import type { Outcome } from '../../model/outcome.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

/** A node that does not answer counts as watching. */
const ASK_MS = 1_000;
/** A subscription waits at most this long for a withdrawal that neither continues nor ends. */
const HOLD_MS = 5_000;
/** A server's answer may take long; the other nodes are notified this often that it is still open. */
const RENEW_MS = 1_000;
/** Beyond it the node answers that it watches the resource. */
const MAX_HELD = 10_000;
const UNDER_WAY = 'trunkline.withdrawing';
const OVER = 'trunkline.withdrawn';

export interface Watchers {
  /** Returns whether any other watches it. */
  leave(resource: string, node: string): boolean;
}

interface Left {
  readonly resource: string;
  readonly node: string;
  /** Null: nothing is withdrawn, whatever the answer. */
  readonly id: string | null;
}

interface WatchState {
  readonly watched: boolean;
}

interface Hold {
  readonly resource: string;
  disarm: () => void;
}

interface HeldResource {
  readonly ids: Set<string>;
  readonly over: Promise<void>;
  readonly end: () => void;
}

/**
 * Withdraws a subscription of a session that several nodes share when none watches it. The node asks the others; one that does
 * not watch answers so and subscribes no client until the withdrawal is over, because a subscription in between would be
 * withdrawn. One that does not answer counts as watching while it is there.
 */
export class Withdrawals {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #registrations: readonly { close(): void }[];
  readonly #held = new Map<string, HeldResource>();
  readonly #resources = new Map<string, Hold>();
  #count = 0;

  constructor(bus: Bus, clock: Clock, watchers: Watchers) {
    this.#bus = bus;
    this.#clock = clock;
    this.#registrations = [
      bus.serve(
        subject(bus.peer),
        (serving) => {
          const { resource, node, id } = unpackFrame<Left>(serving.payload).header;
          const watched = watchers.leave(resource, node) || (id !== null && !this.#hold(resource, id));
          const said: WatchState = { watched };
          serving.answer(packFrame(said));
        },
        { concurrency: MAX_HELD },
      ),
      bus.subscribe(UNDER_WAY, (payload) => this.#renew(unpackFrame<{ id: string }>(payload).header.id)),
      bus.subscribe(OVER, (payload) => this.#release(unpackFrame<{ id: string }>(payload).header.id)),
    ];
  }

  tell(resource: string, node: string, others: readonly string[]): void {
    for (const peer of others) void this.#ask(peer, { resource, node, id: null });
  }

  /** Null without calling `pass` if a node still watches. `others`: at this moment. */
  async run(
    resource: string,
    node: string,
    others: () => readonly string[],
    watchedHere: () => boolean,
    pass: () => Promise<Outcome>,
  ): Promise<Outcome | null> {
    const asked = others();
    const bus = this.#bus;
    const id = `${bus.peer}.${++this.#count}`;
    this.#hold(resource, id);
    const stop = this.#keepHeld(id, asked);
    try {
      const said = await Promise.all(asked.map((peer) => this.#ask(peer, { resource, node, id })));
      const there = others();
      const watched = asked.some((peer, i) => said[i] ?? there.includes(peer));
      return watched || watchedHere() ? null : await pass();
    } finally {
      stop();
      this.#release(id);
      if (asked.length > 0) bus.publish(OVER, packFrame({ id }));
    }
  }

  async over(resource: string): Promise<void> {
    for (let held = this.#held.get(resource); held !== undefined; held = this.#held.get(resource)) await held.over;
  }

  forgetPeer(peer: string): void {
    for (const id of [...this.#resources.keys()]) if (id.startsWith(`${peer}.`)) this.#release(id);
  }

  close(): void {
    for (const registration of this.#registrations) registration.close();
    for (const id of [...this.#resources.keys()]) this.#release(id);
  }

  /** Null if it does not answer. */
  async #ask(peer: string, left: Left): Promise<boolean | null> {
    const { outcome } = this.#bus.call(subject(peer), packFrame(left), { to: peer, deadlineMs: ASK_MS });
    const ended = await outcome;
    return ended.kind === 'failure' ? null : unpackFrame<WatchState>(ended.payload).header.watched;
  }

  #keepHeld(id: string, asked: readonly string[]): () => void {
    let disarm: () => void;
    const next = (): void => {
      disarm = this.#clock.after(RENEW_MS, () => {
        this.#renew(id);
        if (asked.length > 0) this.#bus.publish(UNDER_WAY, packFrame({ id }));
        next();
      });
    };
    next();
    return () => disarm();
  }

  #renew(id: string): void {
    const known = this.#resources.get(id);
    if (known === undefined) return;
    known.disarm();
    known.disarm = this.#clock.after(HOLD_MS, () => this.#release(id));
  }

  /** False if there are too many. */
  #hold(resource: string, id: string): boolean {
    if (this.#resources.size >= MAX_HELD) return false;
    this.#resources.set(id, { resource, disarm: this.#clock.after(HOLD_MS, () => this.#release(id)) });
    let held = this.#held.get(resource);
    if (held === undefined) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#held.set(resource, (held = { ids: new Set(), over: promise, end: resolve }));
    }
    held.ids.add(id);
    return true;
  }

  #release(id: string): void {
    const known = this.#resources.get(id);
    if (known === undefined) return;
    this.#resources.delete(id);
    known.disarm();
    const held = this.#held.get(known.resource)!;
    held.ids.delete(id);
    if (held.ids.size > 0) return;
    this.#held.delete(known.resource);
    held.end();
  }
}

function subject(peer: string): string {
  return `trunkline.unwatched.${peer}`;
}
