import type { Msg } from '@nats-io/transport-node';
import type { WireMessage } from '../wire.ts';

/** A message of NATS. The client reads texts from bytes each time it makes one: only what is asked for is read. */
export class NatsMessage implements WireMessage {
  readonly payload: Buffer;
  readonly #message: Msg;
  readonly #subject: string | null;

  /** `subject`: what was subscribed to, where only that comes; else null. */
  constructor(message: Msg, subject: string | null) {
    const { data } = message;
    this.payload = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    this.#message = message;
    this.#subject = subject;
  }

  get subject(): string {
    return this.#subject ?? this.#message.subject;
  }

  get reply(): string {
    return this.#message.reply ?? '';
  }

  get noResponders(): boolean {
    return this.payload.length === 0 && this.#message.headers?.code === 503;
  }

  header(name: string): string | null {
    const { headers } = this.#message;
    return headers?.has(name) === true ? headers.get(name) : null;
  }
}
