import type { Wire } from '../../bus/wire.ts';
import type { Clock } from '../../model/clock.ts';

/** After an outage of NATS programs come back one by one, and NATS keeps nothing for those that are not there yet. */
const OUTAGE_OVER_MS = 15_000;
const AGAIN_MS = 250;
/** NATS says at once that nobody receives; after an outage all nodes and programs come back at once, and that may take a while. */
const UNSURE_MS = 5_000;
const GIVE_UP_MS = 10_000;

/** Publishes answers to programs. After an outage it publishes an answer without a receiver again until its program is back. */
export class AnswerPost {
  readonly #wire: Wire;
  readonly #clock: Clock;
  readonly #heardBy: string;
  /** Answers of the last moments, by number: NATS may say that they had no receiver. */
  readonly #unsure = new Map<string, () => void>();
  #carefulUntil = Number.NEGATIVE_INFINITY;
  #number = 0;

  constructor(wire: Wire, clock: Clock, peer: string) {
    this.#wire = wire;
    this.#clock = clock;
    this.#heardBy = `trunkline.answers.${peer}`;
    wire.onChange((change) => {
      if (change.type === 'connected' && change.resync) this.#carefulUntil = clock.now() + OUTAGE_OVER_MS;
    });
    wire.subscribe(`${this.#heardBy}.*`, ({ subject, noResponders }) => {
      if (noResponders) this.#unsure.get(subject)?.();
    });
  }

  publish(reply: string, answer: Buffer): void {
    const now = this.#clock.now();
    if (now < this.#carefulUntil) this.#publishCarefully(reply, answer, now + GIVE_UP_MS);
    else this.#wire.publish(reply, answer);
  }

  #publishCarefully(reply: string, answer: Buffer, until: number): void {
    const subject = `${this.#heardBy}.${++this.#number}`;
    const forget = this.#clock.after(UNSURE_MS, () => this.#unsure.delete(subject));
    this.#unsure.set(subject, () => {
      forget();
      this.#unsure.delete(subject);
      if (this.#clock.now() >= until) return;
      this.#clock.after(AGAIN_MS, () => this.#publishCarefully(reply, answer, until));
    });
    this.#wire.publish(reply, answer, { reply: subject });
  }
}
