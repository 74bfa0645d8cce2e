import { type CallTransport, type Look, MAX_DEADLINE_MS, MAX_PAYLOAD_BYTES } from './call-transport.ts';
import { Channel, type ChannelEnds } from './channel.ts';
import type { AckFrame, CallId, DataFrame, Framed, Part } from './frames.ts';

/** The table of a call. */
export interface CallKeeper {
  readonly transport: CallTransport;
  ended(call: CallId): void;
}

/** What both ends of a call have. */
export abstract class CallEnd implements ChannelEnds, CallId {
  readonly family: number;
  readonly number: number;
  /** At the other end. */
  readonly peer: string;
  protected readonly owner: CallKeeper;
  protected readonly transport: CallTransport;
  /** When it has `expired`. */
  protected endsAt = 0;
  /** When something is `due` before. */
  protected dueAt = Number.POSITIVE_INFINITY;
  /** Only for more than one request and one short answer. */
  protected made: Channel | null = null;

  constructor(owner: CallKeeper, { family, number }: CallId, peer: string) {
    this.family = family;
    this.number = number;
    this.peer = peer;
    this.owner = owner;
    this.transport = owner.transport;
  }

  /** Returns when it must be called again. */
  tick({ now, beat, nextBeat }: Look): number {
    if (now >= this.endsAt) this.expired();
    else if (now >= this.dueAt) {
      this.dueAt = Number.POSITIVE_INFINITY;
      this.due();
    }
    if (beat) this.made?.tick();
    return Math.min(this.endsAt, this.dueAt, nextBeat);
  }

  protected endIn(ms: number): void {
    this.endsAt = this.transport.wakeIn(Math.min(ms, MAX_DEADLINE_MS));
  }

  protected dueIn(ms: number): void {
    this.dueAt = this.transport.wakeIn(ms);
  }

  protected get channel(): Channel {
    this.made ??= new Channel(this, this.transport.chunkBytes, MAX_PAYLOAD_BYTES);
    return this.made;
  }

  abstract data(frame: DataFrame): void;
  abstract ack(frame: AckFrame): void;
  /** Every other frame. */
  abstract told(kind: number, frame: Framed): void;
  /** After a reconnect. */
  abstract resync(): void;
  abstract transmit(frame: Buffer): void;
  abstract received(part: Part, ref: number, payload: Buffer): void;
  abstract drained(): void;
  abstract broken(reason: string, slow: boolean): void;
  protected abstract due(): void;
  protected abstract expired(): void;
}
