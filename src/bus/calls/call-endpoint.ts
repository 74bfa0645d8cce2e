import { type CallTransport, MAX_DEADLINE_MS, MAX_PAYLOAD_BYTES, type TickInfo } from './call-transport.ts';
import { Channel, type ChannelEnds } from './channel.ts';
import type { AckFrame, CallId, DataFrame, Framed, Part } from './frames.ts';

/** The table that holds a call. */
export interface CallTable {
  readonly transport: CallTransport;
  /** Schedules a tick of the call at this time. */
  wake(call: CallEndpoint, at: number): void;
  ended(call: CallId): void;
}

/** Base of both ends of a call. */
export abstract class CallEndpoint implements ChannelEnds, CallId {
  readonly family: number;
  readonly number: number;
  /** Peer at the other end. */
  readonly peer: string;
  protected readonly owner: CallTable;
  protected readonly transport: CallTransport;
  /** Time of `expired`. */
  protected endsAt = 0;
  /** Time of `due`, if that is earlier. */
  protected dueAt = Number.POSITIVE_INFINITY;
  /** Null while one request and one short answer suffice. */
  protected openedChannel: Channel | null = null;
  /** A tick is scheduled before the next beat. */
  isScheduled = false;
  ended = false;

  constructor(owner: CallTable, { family, number }: CallId, peer: string) {
    this.family = family;
    this.number = number;
    this.peer = peer;
    this.owner = owner;
    this.transport = owner.transport;
  }

  /** Returns the time at which it must be called again. */
  tick({ now, beat }: TickInfo): number {
    if (this.ended) return Number.POSITIVE_INFINITY;
    if (now >= this.endsAt) this.expired();
    else if (now >= this.dueAt) {
      this.dueAt = Number.POSITIVE_INFINITY;
      this.due();
    }
    if (this.ended) return Number.POSITIVE_INFINITY;
    if (beat) this.openedChannel?.tick();
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
    this.ended = true;
    this.owner.ended(this);
  }

  protected get channel(): Channel {
    this.openedChannel ??= new Channel(this, this.transport.chunkBytes, MAX_PAYLOAD_BYTES);
    return this.openedChannel;
  }

  abstract data(frame: DataFrame): void;
  abstract ack(frame: AckFrame): void;
  /** Handles all other frames. */
  abstract controlFrame(kind: number, frame: Framed): void;
  /** Called after a reconnect. */
  abstract resync(): void;
  abstract transmit(frame: Buffer): void;
  abstract received(part: Part, ref: number, payload: Buffer): void;
  abstract drained(): void;
  abstract broken(reason: string, slow: boolean): void;
  protected abstract due(): void;
  protected abstract expired(): void;
}
