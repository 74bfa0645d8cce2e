import { type CallTransport, Deadline, MAX_PAYLOAD_BYTES } from './call-transport.ts';
import { Channel, type ChannelEnds } from './channel.ts';
import type { DueItem } from './due-queue.ts';
import type { CallId, Part } from './frames.ts';

/** What both ends of a call have. */
export abstract class CallEnd implements ChannelEnds, CallId, DueItem {
  readonly family: number;
  readonly number: number;
  dueAt = 0;
  earlier: DueItem | null = null;
  later: DueItem | null = null;
  protected readonly transport: CallTransport;
  protected readonly deadline: Deadline;
  /** Only for more than one request and one short answer. */
  protected made: Channel | null = null;

  constructor(transport: CallTransport, { family, number }: CallId, deadlineMs: number) {
    this.family = family;
    this.number = number;
    this.transport = transport;
    this.deadline = new Deadline(transport.clock, deadlineMs, this);
  }

  tick(): void {
    this.deadline.tick();
    this.made?.tick();
  }

  protected get channel(): Channel {
    this.made ??= new Channel(this, this.transport.chunkBytes, MAX_PAYLOAD_BYTES);
    return this.made;
  }

  abstract due(): void;
  abstract expired(): void;
  abstract transmit(frame: Buffer): void;
  abstract received(part: Part, ref: number, payload: Buffer): void;
  abstract drained(): void;
  abstract broken(reason: string, slow: boolean): void;
}
