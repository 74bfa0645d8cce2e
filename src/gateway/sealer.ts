import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto';
import type { Sealing } from '../model/sealing.ts';

const NONCE = 12;
const TAG = 16;

/**
 * Seals small texts that travel through clients (proto:S3): AES-256-GCM, bound to a context, so that what was
 * sealed for one purpose or principal opens for no other. The nonce is derived from the content: the same text in
 * the same context has the same seal, so that an id handed out twice stays one id; nothing else leaks by that.
 */
export class Sealer implements Sealing {
  readonly #encryption: Buffer;
  readonly #nonces: Buffer;

  constructor(key: Buffer) {
    this.#encryption = Buffer.from(hkdfSync('sha256', key, '', 'trunkline seal', 32));
    this.#nonces = Buffer.from(hkdfSync('sha256', key, '', 'trunkline nonce', 32));
  }

  seal(context: string, text: string): string {
    const aad = Buffer.from(context);
    const plain = Buffer.from(text);
    const nonce = createHmac('sha256', this.#nonces)
      .update(`${aad.length}\0`)
      .update(aad)
      .update(plain)
      .digest()
      .subarray(0, NONCE);
    const cipher = createCipheriv('aes-256-gcm', this.#encryption, nonce).setAAD(aad);
    return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]).toString('base64url');
  }

  /** null for whatever was not sealed with this key for this context. */
  open(context: string, sealed: string): string | null {
    const bytes = Buffer.from(sealed, 'base64url');
    if (bytes.length < NONCE + TAG || bytes.toString('base64url') !== sealed) return null;
    const end = bytes.length - TAG;
    const decipher = createDecipheriv('aes-256-gcm', this.#encryption, bytes.subarray(0, NONCE), {
      authTagLength: TAG,
    });
    decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(end));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(NONCE, end)), decipher.final()]).toString();
    } catch {
      return null;
    }
  }
}
