import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import type { Random } from '../model/random.ts';
import type { Sealing } from '../model/sealing.ts';

const NONCE = 12;
const TAG = 16;
const KEY_ID = 4;
/** How long a key seals; it opens for as long again. */
const ROTATION_MS = 24 * 60 * 60_000;

/**
 * Seals small texts that travel through clients (proto:S3): AES-256-GCM, bound to a context, so that a text that was sealed for
 * one purpose or principal opens for no other. The nonce is derived from the content: equal texts in one context have equal
 * seals, so that an id stays the same; a seal reveals nothing else.
 */
export class Sealer implements Sealing {
  readonly #encryption: Buffer;
  readonly #nonces: Buffer;

  constructor(key: Buffer) {
    this.#encryption = derived(key, 'trunkline seal');
    this.#nonces = derived(key, 'trunkline nonce');
  }

  seal(context: string, text: string): string {
    const aad = Buffer.from(context);
    const hmac = createHmac('sha256', this.#nonces).update(`${aad.length}\0`).update(aad).update(text);
    const nonce = hmac.digest().subarray(0, NONCE);
    return Buffer.concat([nonce, ...encrypted(this.#encryption, nonce, aad, text)]).toString('base64url');
  }

  /** Returns null for a text that was not sealed with this key for this context. */
  open(context: string, sealed: string): string | null {
    const bytes = bytesOf(sealed, NONCE + TAG);
    return bytes === null ? null : decrypted(this.#encryption, bytes, Buffer.from(context));
  }
}

/** `key`: 32 random bytes of this installation. */
interface StateSealerDeps {
  readonly key: Buffer;
  readonly clock: Pick<Clock, 'wall'>;
  readonly random: Random;
}

/**
 * Seals state that a client carries and returns (proto:S3), with a random nonce and a key that rotates by the calendar. Each
 * key is derived from the installation's key and its own number, which precedes the seal, and opens for as long again as it
 * sealed. So a restart loses no key, and every sealed state expires.
 */
export class StateSealer implements Sealing {
  readonly #deps: StateSealerDeps;
  readonly #keys = new Map<number, Buffer>();

  constructor(deps: StateSealerDeps) {
    this.#deps = deps;
  }

  seal(context: string, text: string): string {
    const head = Buffer.alloc(KEY_ID);
    const number = this.#current();
    head.writeUInt32BE(number);
    const nonce = Buffer.from(this.#deps.random.hex(NONCE), 'hex');
    const aad = Buffer.concat([head, Buffer.from(context)]);
    return Buffer.concat([head, nonce, ...encrypted(this.#key(number), nonce, aad, text)]).toString('base64url');
  }

  /** Returns null for a text that was not sealed for this context, or with an expired key. */
  open(context: string, sealed: string): string | null {
    const bytes = bytesOf(sealed, KEY_ID + NONCE + TAG);
    const number = bytes?.readUInt32BE() ?? 0;
    const age = this.#current() - number;
    if (bytes === null || (age !== 0 && age !== 1)) return null;
    const aad = Buffer.concat([bytes.subarray(0, KEY_ID), Buffer.from(context)]);
    return decrypted(this.#key(number), bytes.subarray(KEY_ID), aad);
  }

  #current(): number {
    return Math.floor(this.#deps.clock.wall() / ROTATION_MS);
  }

  #key(number: number): Buffer {
    let key = this.#keys.get(number);
    if (key === undefined) {
      key = derived(this.#deps.key, `trunkline state ${number}`);
      for (const old of this.#keys.keys()) if (old < number - 1) this.#keys.delete(old);
      this.#keys.set(number, key);
    }
    return key;
  }
}

/** Keys of an installation or a cluster, the current one first; they may change between reads. */
export interface KeySource {
  readonly keys: readonly Buffer[];
}

/**
 * Seals records at rest: AES-256-GCM with a random nonce of 96 bits. The id of the key precedes each seal, so that keys can be
 * rotated: the current one seals, all of them open.
 */
export class RecordSealing implements Sealing {
  readonly #source: KeySource;
  readonly #random: Random;
  readonly #known = new Map<string, RecordKey>();

  constructor(source: KeySource, random: Random) {
    this.#source = source;
    this.#random = random;
  }

  seal(context: string, text: string): string {
    const [inForce] = this.#source.keys;
    if (inForce === undefined) throw new RangeError('nothing is sealed without a key');
    const { id, key } = this.#derived(inForce);
    const nonce = Buffer.from(this.#random.hex(NONCE), 'hex');
    const aad = Buffer.concat([id, Buffer.from(context)]);
    return Buffer.concat([id, nonce, ...encrypted(key, nonce, aad, text)]).toString('base64url');
  }

  open(context: string, sealed: string): string | null {
    const bytes = bytesOf(sealed, KEY_ID + NONCE + TAG);
    const found = bytes === null ? undefined : this.#keys().find(({ id }) => id.equals(bytes.subarray(0, KEY_ID)));
    if (bytes === null || found === undefined) return null;
    return decrypted(found.key, bytes.subarray(KEY_ID), Buffer.concat([found.id, Buffer.from(context)]));
  }

  outdated(_context: string, sealed: string): boolean {
    const [inForce] = this.#keys();
    const bytes = bytesOf(sealed, KEY_ID + NONCE + TAG);
    return inForce !== undefined && bytes?.subarray(0, KEY_ID).equals(inForce.id) === false;
  }

  #keys(): readonly RecordKey[] {
    return this.#source.keys.map((key) => this.#derived(key));
  }

  #derived(key: Buffer): RecordKey {
    const known = this.#known.get(key.toString('hex'));
    if (known !== undefined) return known;
    const made = { id: derived(key, 'trunkline record id').subarray(0, KEY_ID), key: derived(key, 'trunkline record') };
    this.#known.set(key.toString('hex'), made);
    return made;
  }
}

interface RecordKey {
  readonly id: Buffer;
  readonly key: Buffer;
}

function derived(key: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, '', purpose, 32));
}

/** Base64 has several spellings of the same bytes; only the canonical one is accepted. */
function bytesOf(sealed: string, least: number): Buffer | null {
  const bytes = Buffer.from(sealed, 'base64url');
  return bytes.length >= least && bytes.toString('base64url') === sealed ? bytes : null;
}

function encrypted(key: Buffer, nonce: Buffer, aad: Buffer, text: string): readonly Buffer[] {
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(aad);
  return [cipher.update(text), cipher.final(), cipher.getAuthTag()];
}

/** `sealed`: nonce, text and tag. */
function decrypted(key: Buffer, sealed: Buffer, aad: Buffer): string | null {
  const end = sealed.length - TAG;
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, NONCE), { authTagLength: TAG });
  decipher.setAAD(aad).setAuthTag(sealed.subarray(end));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(NONCE, end)), decipher.final()]).toString();
  } catch {
    return null;
  }
}
