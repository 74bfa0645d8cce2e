import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import type { Random } from '../model/random.ts';
import type { Sealing } from '../model/sealing.ts';

const NONCE = 12;
const TAG = 16;
const KEY_ID = 4;
/** How long a key seals; for as long again it still opens. */
const ROTATION_MS = 24 * 60 * 60_000;

export interface StateSealerDeps {
  /** 32 random bytes of this installation. */
  readonly key: Buffer;
  readonly clock: Pick<Clock, 'wall'>;
  readonly random: Random;
}

/**
 * Seals state that a client carries and brings back (proto:S3): AES-256-GCM under a random nonce, bound to a
 * context, so that what was sealed for one principal or purpose opens for no other. Keys rotate by the calendar: each
 * is derived from the installation's and its number, which stands in front of the seal, and opens for as long again as
 * it sealed. So a restart loses none, and every sealed state ends by itself.
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
    const cipher = createCipheriv('aes-256-gcm', this.#key(number), nonce).setAAD(aad(head, context));
    return Buffer.concat([head, nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]).toString('base64url');
  }

  /** null for whatever was not sealed for this context, or under a key that is too old. */
  open(context: string, sealed: string): string | null {
    const bytes = Buffer.from(sealed, 'base64url');
    // Base64 has several spellings of the same bytes; only ours is ours.
    if (bytes.length < KEY_ID + NONCE + TAG || bytes.toString('base64url') !== sealed) return null;
    const number = bytes.readUInt32BE();
    const age = this.#current() - number;
    if (age !== 0 && age !== 1) return null;
    const end = bytes.length - TAG;
    const nonce = bytes.subarray(KEY_ID, KEY_ID + NONCE);
    const decipher = createDecipheriv('aes-256-gcm', this.#key(number), nonce, { authTagLength: TAG });
    decipher.setAAD(aad(bytes.subarray(0, KEY_ID), context)).setAuthTag(bytes.subarray(end));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(KEY_ID + NONCE, end)), decipher.final()]).toString();
    } catch {
      return null;
    }
  }

  #current(): number {
    return Math.floor(this.#deps.clock.wall() / ROTATION_MS);
  }

  #key(number: number): Buffer {
    let key = this.#keys.get(number);
    if (key === undefined) {
      key = Buffer.from(hkdfSync('sha256', this.#deps.key, '', `trunkline state ${number}`, 32));
      for (const old of this.#keys.keys()) if (old < number - 1) this.#keys.delete(old);
      this.#keys.set(number, key);
    }
    return key;
  }
}

function aad(head: Buffer, context: string): Buffer {
  return Buffer.concat([head, Buffer.from(context)]);
}
