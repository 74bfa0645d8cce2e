import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import type { LogReading, SharedLog } from '../shared-log.ts';
import type { KeyRing } from './key-ring.ts';

/** Bytes: version 1 · key id 4 · peer 8 · counter 6; then the ciphertext, then the tag 16. */
const KEY_AT = 1;
const PEER_AT = 5;
const COUNTER_AT = 13;
const HEAD_BYTES = 19;
const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const KEY_BYTES = 32;
const VERSION = 1;
const MAX_KEYS = 256;

/**
 * Encrypts entries with AES-256-GCM, because they leave the cluster; their name is authenticated. Each process derives its own
 * key from the secret and its peer id, so that a counter is a unique nonce. `read` omits entries that it cannot decrypt.
 */
export class SealedLog implements SharedLog {
  readonly maxEntryBytes: number;
  readonly #log: SharedLog;
  readonly #secrets: ReadonlyMap<number, Buffer>;
  readonly #head = Buffer.alloc(HEAD_BYTES);
  readonly #sealing: Buffer;
  readonly #keys = new Map<string, Buffer>();
  #counter = 0;

  /** `peer`: 16 hexadecimal digits, never reused. */
  constructor(log: SharedLog, ring: KeyRing, peer: string) {
    const keys = ring.keys('log-sealing');
    this.#log = log;
    this.maxEntryBytes = log.maxEntryBytes - HEAD_BYTES - TAG_BYTES;
    this.#secrets = new Map(keys.map(({ id, key }) => [Number.parseInt(id, 16), key]));
    this.#head[0] = VERSION;
    this.#head.write(keys[0]!.id, KEY_AT, 'hex');
    this.#head.write(peer, PEER_AT, 'hex');
    this.#sealing = keyOf(keys[0]!.key, peer);
  }

  append(name: string, entry: Buffer): boolean {
    return this.#log.append(name, this.#seal(name, entry));
  }

  appendAfter(name: string, entry: Buffer, position: number): Promise<boolean> {
    return this.#log.appendAfter(name, this.#seal(name, entry), position);
  }

  async read(name: string): Promise<LogReading> {
    const { entries, position } = await this.#log.read(name);
    return { entries: entries.map((entry) => this.#open(name, entry)).filter((entry) => entry !== null), position };
  }

  close(): void {
    this.#log.close();
  }

  #seal(name: string, entry: Buffer): Buffer {
    this.#head.writeUIntBE(++this.#counter, COUNTER_AT, 6);
    const cipher = createCipheriv('aes-256-gcm', this.#sealing, nonceOf(this.#head)).setAAD(boundTo(name, this.#head));
    return Buffer.concat([this.#head, cipher.update(entry), cipher.final(), cipher.getAuthTag()]);
  }

  #open(name: string, bytes: Buffer): Buffer | null {
    if (bytes.length < HEAD_BYTES + TAG_BYTES || bytes[0] !== VERSION) return null;
    const key = this.#keyOf(bytes);
    if (key === null) return null;
    const end = bytes.length - TAG_BYTES;
    const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(bytes), { authTagLength: TAG_BYTES });
    decipher.setAAD(boundTo(name, bytes.subarray(0, HEAD_BYTES))).setAuthTag(bytes.subarray(end));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(HEAD_BYTES, end)), decipher.final()]);
    } catch {
      return null;
    }
  }

  #keyOf(bytes: Buffer): Buffer | null {
    const secret = this.#secrets.get(bytes.readUInt32BE(KEY_AT));
    if (secret === undefined) return null;
    const name = bytes.toString('hex', KEY_AT, COUNTER_AT);
    let key = this.#keys.get(name);
    if (key === undefined) {
      key = keyOf(secret, bytes.toString('hex', PEER_AT, COUNTER_AT));
      if (this.#keys.size >= MAX_KEYS) this.#keys.clear();
      this.#keys.set(name, key);
    }
    return key;
  }
}

function keyOf(secret: Buffer, peer: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', `log of ${peer}`, KEY_BYTES));
}

function nonceOf(head: Buffer): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  head.copy(nonce, NONCE_BYTES - (HEAD_BYTES - COUNTER_AT), COUNTER_AT, HEAD_BYTES);
  return nonce;
}

function boundTo(name: string, head: Buffer): Buffer {
  return Buffer.concat([head, Buffer.from(name)]);
}
