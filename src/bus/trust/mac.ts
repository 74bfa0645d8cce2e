import { createHmac, createSecretKey, hash, type KeyObject } from 'node:crypto';

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

  /** Of the text, a zero, and the bytes without those from `gapAt` to `gapEnd`: as many characters of latin1 as it has bytes. */
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
