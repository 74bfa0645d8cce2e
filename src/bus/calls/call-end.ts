import { type CallTransport, type Look, MAX_DEADLINE_MS, MAX_PAYLOAD_BYTES } from './call-transport.ts';
import { Channel, type ChannelEnds } from './channel.ts';
import type { AckFrame, CallId, DataFrame, Framed, Part } from './frames.ts';

/** The table of a call. */
export interface CallKeeper {
  readonly transport: CallTransport;
  /** It must be looked at then. */
  wake(call: CallEnd, at: number): void;
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
  /** A look at it is due before the next beat. */
  soon = false;
  over = false;

  constructor(owner: CallKeeper, { family, number }: CallId, peer: string) {
    this.family = family;
    this.number = number;
    this.peer = peer;
    this.owner = owner;
    this.transport = owner.transport;
  }

  /** Returns when it must be called again. */
  tick({ now, beat }: Look): number {
    if (this.over) return Number.POSITIVE_INFINITY;
    if (now >= this.endsAt) this.expired();
    else if (now >= this.dueAt) {
      this.dueAt = Number.POSITIVE_INFINITY;
      this.due();
    }
    if (this.over) return Number.POSITIVE_INFINITY;
    if (beat) this.made?.tick();
    return Math.min(this.endsAt, this.dueAt);
  }

  protected endIn(ms: number): void {
    this.endsAt = this.transport.now + Math.min(ms, MAX_DEADLINE_MS);
    this.owner.wake(this, this.endsAt);
  }

  protected dueIn(ms: number): void {
    this.dueAt = this.transport.now + ms;
    this.owner.wake(this, this.dueAt);
  }

  protected end(): void {
    this.over = true;
    this.owner.ended(this);
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
