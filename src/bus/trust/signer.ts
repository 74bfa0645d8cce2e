import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import type { KeyRing } from './key-ring.ts';
import { MAC_BYTES, Mac } from './mac.ts';
import type { ReplayWindow } from './replay-window.ts';

/** version 1 · key id 4 · peer 8 · counter 6 · wall clock in ms 6 · HMAC-SHA-256 32; then what is signed. */
const KEY_AT = 1;
const PEER_AT = 5;
const COUNTER_AT = 13;
const TIME_AT = 19;
const MAC_AT = 25;
const VERSION = 1;
/**
 * Counters of peers that read bundles begin here: it is the one field in which a peer can say so that those of before, who
 * read none, do not mind.
 */
const READS_BUNDLES = 2 ** 47;

/** Room that a message leaves at its front for its signature. */
export const SIGNATURE_BYTES = MAC_AT + MAC_BYTES;
/** How much clocks of nodes may differ, and so how long a message may be replayed to somebody who has not seen it. */
export const MAX_SKEW_MS = 60_000;

export interface Signed {
  readonly from: string;
  /** Whoever signed it reads messages with several frames. */
  readonly readsBundles: boolean;
  /** Everything behind the signature. */
  readonly frame: Buffer;
}

/**
 * Signs what leaves and checks what comes: by whom of the cluster, for which subject, when, and that it comes for the
 * first time. Nothing is encrypted: that is TLS.
 */
export class Signer {
  readonly peer: string;
  readonly #clock: Clock;
  readonly #keys: ReadonlyMap<number, Mac>;
  readonly #signing: Mac;
  readonly #signingId: number;
  readonly #peer: Buffer;
  /** What a signature has to be, while it is compared. */
  readonly #expected = Buffer.allocUnsafeSlow(MAC_BYTES);
  #counter = READS_BUNDLES;

  /** `peer`: 16 hexadecimal digits, never used before. */
  constructor(peer: string, ring: KeyRing, clock: Clock) {
    const keys = ring.keys('bus-signing');
    this.peer = peer;
    this.#peer = Buffer.from(peer, 'hex');
    this.#clock = clock;
    this.#keys = new Map(keys.map(({ id, key }) => [Number.parseInt(id, 16), new Mac(key)]));
    this.#signingId = Number.parseInt(keys[0]!.id, 16);
    this.#signing = this.#keys.get(this.#signingId)!;
  }

  /** Fills the room at the front of a message. */
  sign(frame: Buffer, subject: string): void {
    frame[0] = VERSION;
    frame.writeUInt32BE(this.#signingId, KEY_AT);
    this.#peer.copy(frame, PEER_AT);
    frame.writeUIntBE(++this.#counter, COUNTER_AT, 6);
    frame.writeUIntBE(Math.max(0, Math.round(this.#clock.wall())), TIME_AT, 6);
    frame.write(this.#signing.of(subject, frame, MAC_AT, SIGNATURE_BYTES), MAC_AT, 'latin1');
  }

  /**
   * What it says and who says so; a text why it is not believed. `seen` belongs to one subscription: a message comes once
   * to each of them.
   */
  open(bytes: Buffer, subject: string, seen: ReplayWindow): Signed | string {
    if (bytes.length < SIGNATURE_BYTES || bytes[0] !== VERSION) return 'it is not signed';
    const key = this.#keys.get(bytes.readUInt32BE(KEY_AT));
    if (key === undefined) return 'it is signed with a key of another cluster';
    this.#expected.write(key.of(subject, bytes, MAC_AT, SIGNATURE_BYTES), 0, 'latin1');
    if (!timingSafeEqual(this.#expected, bytes.subarray(MAC_AT, SIGNATURE_BYTES))) return 'its signature is wrong';
    const aheadMs = bytes.readUIntBE(TIME_AT, 6) - this.#clock.wall();
    if (Math.abs(aheadMs) > MAX_SKEW_MS)
      return `it was signed ${Math.round(Math.abs(aheadMs) / 1000)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the clock of this node`;
    const from = bytes.toString('hex', PEER_AT, COUNTER_AT);
    const counter = bytes.readUIntBE(COUNTER_AT, 6);
    if (!seen.take(from, counter, this.#clock.now())) return 'it came before';
    return { from, readsBundles: counter >= READS_BUNDLES, frame: bytes.subarray(SIGNATURE_BYTES) };
  }
}
