import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { type Clock, MAX_SKEW_MS } from '../../model/clock.ts';
import type { KeyRing } from './key-ring.ts';

/** The window rejects counters this far behind the highest, because it cannot tell them from replays. */
const WIDTH = 4096;
/** A full window evicts senders that were silent for `rememberMs`; it rejects new senders if there are none. */
const MAX_SENDERS = 4096;

interface Sender {
  highest: number;
  lastMs: number;
  readonly seen: Uint8Array;
}

/** Replay protection: accepts each counter of a sender once. */
export class ReplayWindow {
  readonly #senders = new Map<string, Sender>();
  readonly #rememberMs: number;

  constructor(rememberMs: number) {
    this.#rememberMs = rememberMs;
  }

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

const MAC_BYTES = 32;

/** Bytes: version 1 · key id 4 · peer 8 · counter 6 · wall clock in ms 6 · HMAC-SHA-256 32; then the signed frame. */
const KEY_AT = 1;
const PEER_AT = 5;
const COUNTER_AT = 13;
const TIME_AT = 19;
const MAC_AT = 25;
const VERSION = 1;

export const SIGNATURE_BYTES = MAC_AT + MAC_BYTES;

interface Signed {
  readonly from: string;
  readonly frame: Buffer;
}

/** Signs messages and verifies their sender, subject, time and first arrival. Does not encrypt: TLS does. */
export class Signer {
  readonly peer: string;
  readonly #clock: Clock;
  readonly #keys: ReadonlyMap<number, KeyObject>;
  readonly #signing: KeyObject;
  readonly #signingId: number;
  readonly #peer: Buffer;
  #counter = 0;

  /** `peer`: 16 hexadecimal digits, never reused. */
  constructor(peer: string, ring: KeyRing, clock: Clock) {
    const keys = ring.keys('bus-signing');
    this.peer = peer;
    this.#peer = Buffer.from(peer, 'hex');
    this.#clock = clock;
    this.#keys = new Map(keys.map(({ id, key }) => [Number.parseInt(id, 16), createSecretKey(key)]));
    this.#signingId = Number.parseInt(keys[0]!.id, 16);
    this.#signing = this.#keys.get(this.#signingId)!;
  }

  sign(frame: Buffer, subject: string): void {
    frame[0] = VERSION;
    frame.writeUInt32BE(this.#signingId, KEY_AT);
    this.#peer.copy(frame, PEER_AT);
    frame.writeUIntBE(++this.#counter, COUNTER_AT, 6);
    frame.writeUIntBE(Math.max(0, Math.round(this.#clock.wall())), TIME_AT, 6);
    mac(this.#signing, subject, frame).copy(frame, MAC_AT);
  }

  /** Returns the reason as text if it rejects the message. Each subscription has its own `seen`. */
  open(bytes: Buffer, subject: string, seen: ReplayWindow): Signed | string {
    if (bytes.length < SIGNATURE_BYTES || bytes[0] !== VERSION) return 'it is not signed';
    const key = this.#keys.get(bytes.readUInt32BE(KEY_AT));
    if (key === undefined) return 'it is signed with a key of another cluster';
    if (!timingSafeEqual(mac(key, subject, bytes), bytes.subarray(MAC_AT, SIGNATURE_BYTES)))
      return 'its signature is wrong';
    const aheadMs = signedAt(bytes) - this.#clock.wall();
    if (Math.abs(aheadMs) > MAX_SKEW_MS)
      return `it was signed ${Math.round(Math.abs(aheadMs) / 1000)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the clock of this node`;
    const from = bytes.toString('hex', PEER_AT, COUNTER_AT);
    const counter = bytes.readUIntBE(COUNTER_AT, 6);
    if (!seen.take(from, counter, this.#clock.now())) return 'it came before';
    return { from, frame: bytes.subarray(SIGNATURE_BYTES) };
  }
}

/** Returns the time of signing by the sender's wall clock. */
export function signedAt(bytes: Buffer): number {
  return bytes.readUIntBE(TIME_AT, 6);
}

/** Computes the HMAC of the subject, a zero byte, and the message without its MAC field. */
function mac(key: KeyObject, subject: string, bytes: Buffer): Buffer {
  const hmac = createHmac('sha256', key).update(`${subject}\0`).update(bytes.subarray(0, MAC_AT));
  return hmac.update(bytes.subarray(SIGNATURE_BYTES)).digest();
}
