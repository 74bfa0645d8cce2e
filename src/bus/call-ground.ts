import type { Clock } from '../model/clock.ts';
import type { Random } from '../model/random.ts';

/** What both ends of a call need of the bus they are on. */
export interface CallGround {
  readonly peer: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Bytes of payload in one message. */
  readonly chunkBytes: number;
  /** Longest payload taken. */
  readonly maxBytes: number;
  readonly connected: boolean;
  /** Signs and publishes; dropped without a connection. */
  transmit(subject: string, frame: Buffer, reply?: string): void;
  slow(subject: string): void;
}

/** Longest deadline that a frame can say, and a timer can wait for: 24 days. */
export const MAX_DEADLINE_MS = 0x7fff_ffff;
