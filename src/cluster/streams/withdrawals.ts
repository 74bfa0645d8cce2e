import type { Bus } from '../../bus/bus.ts';
import { type Clock, pause } from '../../model/clock.ts';
import type { Outcome } from '../../model/outcome.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

const NAME = 'trunkline.unwatched';
/** A node that does not answer counts as watching. */
const ASK_MS = 1_000;
/** A subscription waits at most this long for a withdrawal that neither continues nor ends. */
const HOLD_MS = 5_000;
/** A server's answer may take long; the other nodes are notified this often that it is still open. */
const RENEW_MS = 1_000;
const LOOK_MS = 20;
/** Beyond it the node answers that it watches the resource. */
const MAX_HELD = 10_000;
const UNDER_WAY = 'trunkline.withdrawing';
const OVER = 'trunkline.withdrawn';

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
  until: number;
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
  /** By withdrawal; its id begins with its node. */
  readonly #holds = new Map<string, Hold>();
  #count = 0;

  /** `leave`: the node does not watch the resource any more; returns whether any other does. */
  constructor(bus: Bus, clock: Clock, leave: (resource: string, node: string) => boolean) {
    this.#bus = bus;
    this.#clock = clock;
    const idIn = (payload: Buffer): string => unpackFrame<{ id: string }>(payload).header.id;
    this.#registrations = [
      bus.serve(
        NAME,
        (serving) => {
          const { resource, node, id } = unpackFrame<Left>(serving.payload).header;
          const watched = leave(resource, node) || (id !== null && !this.#hold(resource, id));
          serving.answer(packFrame({ watched } satisfies WatchState));
        },
        { concurrency: MAX_HELD },
      ),
      bus.subscribe(UNDER_WAY, (payload) => void this.#renew(idIn(payload))),
      bus.subscribe(OVER, (payload) => void this.#holds.delete(idIn(payload))),
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
    const id = `${this.#bus.peer}.${++this.#count}`;
    this.#hold(resource, id);
    this.#keep(id);
    try {
      const said = await Promise.all(asked.map((peer) => this.#ask(peer, { resource, node, id })));
      const there = others();
      const watched = asked.some((peer, i) => said[i] ?? there.includes(peer));
      return watched || watchedHere() ? null : await pass();
    } finally {
      this.#holds.delete(id);
      if (asked.length > 0) this.#bus.publish(OVER, packFrame({ id }));
    }
  }

  /** Resolves when the resource is not withdrawn, or not any more. */
  async over(resource: string): Promise<void> {
    while (this.#isHeld(resource)) await pause(this.#clock, LOOK_MS);
  }

  forgetPeer(peer: string): void {
    for (const id of this.#holds.keys()) if (id.startsWith(`${peer}.`)) this.#holds.delete(id);
  }

  close(): void {
    for (const registration of this.#registrations) registration.close();
    this.#holds.clear();
  }

  /** Null if it does not answer. */
  async #ask(peer: string, left: Left): Promise<boolean | null> {
    const { outcome } = this.#bus.call(NAME, packFrame(left), { to: peer, deadlineMs: ASK_MS });
    const ended = await outcome;
    return ended.kind === 'failure' ? null : unpackFrame<WatchState>(ended.payload).header.watched;
  }

  /** Here and at the other nodes, until it is over. */
  #keep(id: string): void {
    this.#clock.after(RENEW_MS, () => {
      if (!this.#renew(id)) return;
      this.#bus.publish(UNDER_WAY, packFrame({ id }));
      this.#keep(id);
    });
  }

  #renew(id: string): boolean {
    const hold = this.#holds.get(id);
    if (hold === undefined) return false;
    hold.until = this.#clock.now() + HOLD_MS;
    return true;
  }

  /** False if there are too many. */
  #hold(resource: string, id: string): boolean {
    if (this.#holds.size >= MAX_HELD && this.#live().length >= MAX_HELD) return false;
    this.#holds.set(id, { resource, until: this.#clock.now() + HOLD_MS });
    return true;
  }

  #isHeld(resource: string): boolean {
    return this.#holds.size > 0 && this.#live().some((hold) => hold.resource === resource);
  }

  #live(): Hold[] {
    for (const [id, { until }] of this.#holds) if (this.#clock.now() >= until) this.#holds.delete(id);
    return [...this.#holds.values()];
  }
}
