import { hkdfSync } from 'node:crypto';

/** Each use has its own derived key. */
type KeyUse = 'bus-signing' | 'sealing' | 'log-sealing' | 'identity';

interface ClusterKey {
  /** Eight hexadecimal digits, derived apart from the key: it reveals nothing of the key. */
  readonly id: string;
  readonly key: Buffer;
}

const SALT = 'trunkline cluster';
const KEY_BYTES = 32;
const ID_BYTES = 4;
export const SHORTEST_SECRET = 32;

/**
 * Keys derived from the cluster secret by HKDF (RFC 5869). The first secret signs; the others are accepted, so that a rotation
 * of the secret does not separate the nodes.
 */
export class KeyRing {
  readonly #secrets: readonly Buffer[];
  readonly #cluster: string | null;

  /** The cluster name separates clusters with the same secret. Throws RangeError for no secret, or one of less than 32 bytes. */
  constructor(secrets: readonly string[], cluster: string | null = null) {
    this.#cluster = cluster;
    this.#secrets = secrets.map((secret) => Buffer.from(secret));
    if (this.#secrets.length === 0) throw new RangeError('a cluster needs a secret');
    for (const secret of this.#secrets) {
      if (secret.length < SHORTEST_SECRET)
        throw new RangeError(
          `the secret of a cluster has at least ${SHORTEST_SECRET} bytes, this one ${secret.length}`,
        );
    }
  }

  /** The keys of all secrets; the current one first. */
  keys(use: KeyUse): readonly ClusterKey[] {
    // Sealing keys ignore the name, so that data sealed at rest stays readable after the cluster gets one.
    const scope = this.#cluster === null || use === 'sealing' ? use : `${use} of ${this.#cluster}`;
    return this.#secrets.map((secret) => ({
      id: derive(secret, `${scope} id`, ID_BYTES).toString('hex'),
      key: derive(secret, scope, KEY_BYTES),
    }));
  }
}

function derive(secret: Buffer, use: string, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, SALT, `v1 ${use}`, bytes));
}
