import type { Wire } from '../../bus/wire.ts';
import type { Clock } from '../../model/clock.ts';

/** After an outage of NATS, programs reconnect one by one, and NATS stores nothing for those that are still missing. */
const OUTAGE_OVER_MS = 15_000;
const RETRY_MS = 250;
const GIVE_UP_MS = 10_000;

export interface Answer {
  readonly reply: string;
  readonly answer: Buffer;
}

interface Posted extends Answer {
  /** Subject on which NATS reports that the answer had no receiver. */
  readonly subject: string;
  /** Until then, the answer is published again if it had no receiver. */
  readonly until: number;
}

/**
 * Publishes answers to programs, and keeps each until NATS has confirmed it: the connection may be dead before this node
 * notices. After an outage it publishes an answer without a receiver again, for at most 10 s.
 */
export class AnswerPublisher {
  readonly #wire: Wire;
  readonly #clock: Clock;
  readonly #noResponderSubject: string;
  readonly #taken: (reply: string) => boolean;
  readonly #unconfirmed = new Set<Posted>();
  /** Unconfirmed answers published since the last flush. */
  #fresh: Posted[] = [];
  /** Answers for which NATS reports a missing receiver, by the subject of the report. */
  readonly #reported = new Map<string, Posted>();
  #carefulUntil = Number.NEGATIVE_INFINITY;
  #number = 0;

  /** `taken`: whether another node answers instead; asked before an answer is published again. If so, it is dropped. */
  constructor(wire: Wire, clock: Clock, peer: string, taken: (reply: string) => boolean) {
    this.#wire = wire;
    this.#clock = clock;
    this.#noResponderSubject = `trunkline.answers.${peer}`;
    this.#taken = taken;
    wire.onChange((change) => {
      if (change.type === 'connected' && change.resync) this.#carefulUntil = clock.now() + OUTAGE_OVER_MS;
    });
    wire.subscribe(`${this.#noResponderSubject}.*`, ({ subject, noResponders }) => {
      if (noResponders) this.#onNoResponder(subject);
    });
  }

  publish(reply: string, answer: Buffer): void {
    this.#send(this.#keep(reply, answer, this.#clock.now() + GIVE_UP_MS));
  }

  /**
   * Flushes what was published since the last call. Resolves with the answers that NATS has processed; with none, or never,
   * if the connection is lost.
   */
  async confirmed(): Promise<readonly Answer[]> {
    const asked = this.#fresh;
    this.#fresh = [];
    if (asked.length === 0) return asked;
    try {
      await this.#wire.flush();
    } catch {
      return [];
    }
    // NATS reports a missing receiver before it confirms.
    for (const { subject } of asked) this.#reported.delete(subject);
    return asked.filter((posted) => this.#unconfirmed.delete(posted));
  }

  /** Called when the connection is lost. Returns the unconfirmed answers, which the caller then keeps. */
  takeBack(): readonly Answer[] {
    const lost = [...this.#unconfirmed];
    this.#unconfirmed.clear();
    this.#reported.clear();
    this.#fresh = [];
    return lost;
  }

  #keep(reply: string, answer: Buffer, until: number): Posted {
    const posted = { reply, answer, until, subject: `${this.#noResponderSubject}.${++this.#number}` };
    this.#unconfirmed.add(posted);
    return posted;
  }

  #send(posted: Posted): void {
    const { reply, answer, subject } = posted;
    this.#fresh.push(posted);
    if (this.#clock.now() >= this.#carefulUntil) {
      this.#wire.publish(reply, answer);
      return;
    }
    this.#reported.set(subject, posted);
    this.#wire.publish(reply, answer, subject);
  }

  #onNoResponder(subject: string): void {
    const posted = this.#reported.get(subject);
    if (posted === undefined || this.#clock.now() >= posted.until) return;
    this.#reported.delete(subject);
    this.#unconfirmed.delete(posted);
    const again = this.#keep(posted.reply, posted.answer, posted.until);
    this.#clock.after(RETRY_MS, () => {
      if (!this.#unconfirmed.has(again)) return;
      if (this.#taken(again.reply)) this.#unconfirmed.delete(again);
      else this.#send(again);
    });
  }
}
