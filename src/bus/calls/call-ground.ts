import type { Clock } from '../../model/clock.ts';
import type { DueQueue } from './due-queue.ts';
import type { End } from './frames.ts';

/** What both ends of a call need of the bus they are on. */
export interface CallGround {
  readonly peer: string;
  readonly clock: Clock;
  /** Bytes of payload in one message. */
  readonly chunkBytes: number;
  /** Longest payload taken. */
  readonly maxBytes: number;
  readonly connected: boolean;
  /** An id that no other call has, at whatever peer. */
  nextCall(): string;
  /** Sends a frame to a peer, in this turn of the loop; dropped without a connection. */
  transmit(peer: string, end: Exclude<End, 'new'>, call: string, frame: Buffer): void;
  /** Sends a request, to whoever serves its subject where there is no peer. The number of its bundle; 0 for none. */
  request(peer: string | null, subject: string, call: string, frame: Buffer): number;
  /** A call that has been begun, and that nobody has taken. */
  readonly untaken: DueQueue<{ nobodyTookIt(): void }>;
  /** A call that is served, and of which the caller has not heard yet. */
  readonly quiet: DueQueue<{ accept(): void }>;
  slow(subject: string): void;
}

/** Longest deadline that a frame can say, and a timer can wait for: 24 days. */
export const MAX_DEADLINE_MS = 0x7fff_ffff;
