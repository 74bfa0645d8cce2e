import { hkdfSync } from 'node:crypto';

/** What keys of the cluster are for. A key for one of them is worth nothing for another. */
type KeyUse = 'bus-signing' | 'sealing' | 'log-sealing';

interface ClusterKey {
  /** Eight hexadecimal digits: which key this is, without a word about the key. */
  readonly id: string;
  readonly key: Buffer;
}

const SALT = 'trunkline cluster';
const KEY_BYTES = 32;
const ID_BYTES = 4;
/** What a secret must have at least. */
export const SHORTEST_SECRET = 32;

/**
 * The keys that follow from the cluster's secret, by HKDF (RFC 5869). The first secret signs; those before it, while they
 * are still listed, are believed: that is how a secret is changed without a moment in which nodes do not understand each
 * other (all nodes know both, then all sign with the new one, then the old one goes).
 */
export class KeyRing {
  readonly #secrets: readonly Buffer[];

  /** Throws RangeError for a secret of less than 32 bytes. */
  constructor(secrets: readonly string[]) {
    this.#secrets = secrets.map((secret) => Buffer.from(secret));
    if (this.#secrets.length === 0) throw new RangeError('a cluster needs a secret');
    for (const secret of this.#secrets) {
      if (secret.length < SHORTEST_SECRET)
        throw new RangeError(
          `the secret of a cluster has at least ${SHORTEST_SECRET} bytes, this one ${secret.length}`,
        );
    }
  }

  /** The keys for one use, the one in force first. */
  keys(use: KeyUse): readonly ClusterKey[] {
    return this.#secrets.map((secret) => ({
      id: derive(secret, `${use} id`, ID_BYTES).toString('hex'),
      key: derive(secret, use, KEY_BYTES),
    }));
  }
}

function derive(secret: Buffer, use: string, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, SALT, `v1 ${use}`, bytes));
}
