import { createHmac, createSecretKey, hash, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import type { KeyRing } from './key-ring.ts';

/** Counters this far behind the highest one of their sender are too old to be distinguished from replays. */
const WIDTH = 4096;
/** Senders remembered at once. A sender is forgotten when everything it may have signed is too old anyway. */
const MAX_SENDERS = 4096;

interface Sender {
  highest: number;
  lastMs: number;
  readonly seen: Uint8Array;
}

/** Which messages of which sender came already: each is taken once. Senders count their messages. */
export class ReplayWindow {
  readonly #senders = new Map<string, Sender>();
  readonly #rememberMs: number;

  constructor(rememberMs: number) {
    this.#rememberMs = rememberMs;
  }

  /** Whether the message with this number is new; it is not from then on. */
  take(from: string, counter: number, nowMs: number): boolean {
    let sender = this.#senders.get(from);
    if (sender === undefined) {
      if (this.#senders.size >= MAX_SENDERS) this.#forget(nowMs);
      if (this.#senders.size >= MAX_SENDERS) return false;
      sender = { highest: counter, lastMs: nowMs, seen: new Uint8Array(WIDTH / 8) };
      this.#senders.set(from, sender);
      mark(sender.seen, counter, true);
      return true;
    }
    sender.lastMs = nowMs;
    if (counter <= sender.highest - WIDTH) return false;
    if (counter <= sender.highest) {
      if (marked(sender.seen, counter)) return false;
    } else {
      if (counter - sender.highest >= WIDTH) sender.seen.fill(0);
      else for (let at = sender.highest + 1; at < counter; at++) mark(sender.seen, at, false);
      sender.highest = counter;
    }
    mark(sender.seen, counter, true);
    return true;
  }

  #forget(nowMs: number): void {
    for (const [name, { lastMs }] of this.#senders) if (nowMs - lastMs > this.#rememberMs) this.#senders.delete(name);
  }
}

function mark(seen: Uint8Array, counter: number, value: boolean): void {
  const at = counter % WIDTH;
  const bit = 1 << (at & 7);
  if (value) seen[at >> 3]! |= bit;
  else seen[at >> 3]! &= ~bit;
}

function marked(seen: Uint8Array, counter: number): boolean {
  const at = counter % WIDTH;
  return (seen[at >> 3]! & (1 << (at & 7))) !== 0;
}

const BLOCK = 64;
export const MAC_BYTES = 32;
/** Longer messages are rare, and what their copy would cost is more than what it saves. */
const SHORT_BYTES = 16 * 1024;

/**
 * HMAC-SHA-256 (RFC 2104) with one key. Of short messages from two hashes over memory that is kept: Node's own HMAC makes an
 * object with a stream around it each time, which costs three times as much and, through the collector, once more afterwards.
 */
export class Mac {
  /** The key, padded as the inner hash wants it, and room for a message behind it. */
  readonly #inner = Buffer.allocUnsafeSlow(BLOCK + SHORT_BYTES);
  /** The key, padded as the outer hash wants it, and room for the inner hash. */
  readonly #outer = Buffer.allocUnsafeSlow(BLOCK + MAC_BYTES);
  readonly #key: KeyObject;

  /** Throws RangeError for a key that is longer than a block of the hash. */
  constructor(key: Buffer) {
    if (key.length > BLOCK) throw new RangeError(`a key of ${key.length} bytes`);
    this.#key = createSecretKey(key);
    for (let at = 0; at < BLOCK; at++) {
      const byte = at < key.length ? key[at]! : 0;
      this.#inner[at] = byte ^ 0x36;
      this.#outer[at] = byte ^ 0x5c;
    }
  }

  /**
   * Of the text, a zero, and the bytes without those from `gapAt` to `gapEnd`: as many characters of latin1 as it has
   * bytes.
   */
  of(text: string, bytes: Buffer, gapAt: number, gapEnd: number): string {
    // No text has more than three bytes for each unit of it.
    if (text.length * 3 + 1 + bytes.length > SHORT_BYTES) {
      const long = createHmac('sha256', this.#key).update(`${text}\0`).update(bytes.subarray(0, gapAt));
      return long.update(bytes.subarray(gapEnd)).digest('binary');
    }
    const inner = this.#inner;
    let end = BLOCK + inner.write(text, BLOCK);
    inner[end++] = 0;
    end += bytes.copy(inner, end, 0, gapAt);
    end += bytes.copy(inner, end, gapEnd);
    this.#outer.write(hash('sha256', inner.subarray(0, end), 'binary'), BLOCK, 'latin1');
    return hash('sha256', this.#outer, 'binary');
  }
}

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
/** How much clocks of nodes may differ, and so how long a message may be replayed to a peer that has not seen it. */
export const MAX_SKEW_MS = 60_000;

interface Signed {
  readonly from: string;
  /** The signer reads messages with several frames. */
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
