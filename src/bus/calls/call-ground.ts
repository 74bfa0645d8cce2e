import type { Clock } from '../../model/clock.ts';
import type { CallId } from './call-id.ts';
import type { DueQueue, Waiting } from './due-queue.ts';
import type { End, Part, RequestHead } from './frames.ts';
import type { Pieces } from './pieces.ts';

/** A call that has been begun, and that nobody has taken. */
export interface Untaken extends Waiting<Untaken> {
  nobodyTookIt(): void;
}

/** A call that is served, and of which the caller has not heard yet. */
export interface Quiet extends Waiting<Quiet> {
  accept(): void;
}

/** What both ends of a call need of the bus they are on. */
export interface CallGround {
  readonly clock: Clock;
  /** Bytes of payload in one message. */
  readonly chunkBytes: number;
  /** Longest payload taken. */
  readonly maxBytes: number;
  readonly connected: boolean;
  /** Sends a frame to a peer, in this turn of the loop; dropped without a connection. */
  transmit(peer: string, end: Exclude<End, 'new'>, call: CallId, frame: Buffer): void;
  /**
   * Sends a request with so much of its payload, to whoever serves its subject where there is no peer. The number of its
   * bundle; 0 for none.
   */
  request(peer: string | null, subject: string, call: CallId, head: RequestHead, pieces: Pieces, bytes: number): number;
  /** Sends all that there is to say to the caller of a short call, as `transmit` does. */
  answer(peer: string, call: CallId, part: Part, pieces: Pieces): void;
  readonly untaken: DueQueue<Untaken>;
  readonly quiet: DueQueue<Quiet>;
  slow(subject: string): void;
}

/** Longest deadline that a frame can say, and a timer can wait for: 24 days. */
export const MAX_DEADLINE_MS = 0x7fff_ffff;
