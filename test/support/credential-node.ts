import type { Records } from '../../src/credentials/credential-store.ts';
import { ServerCredentials } from '../../src/credentials/credentials.ts';
import type { GuardedFetch } from '../../src/http/client/guarded-fetch.ts';
import { type Clock, systemClock } from '../../src/model/clock.ts';
import { systemRandom } from '../../src/model/random.ts';
import type { Sealing } from '../../src/model/sealing.ts';
import type { Server } from '../../src/model/server.ts';
import { StoreError, type StoreWrite } from '../../src/store/run-time-store/run-time-store.ts';
import { Logger } from '../../src/telemetry/logger.ts';

const OPEN: Sealing = { seal: (_context, text) => text, open: (_context, text) => text };

/** Records that nodes share, with compare and swap as in both databases. */
export class SharedRecords implements Records {
  /** How many of the next writes are rejected. */
  failing = 0;
  readonly #records = new Map<string, { readonly value: string; readonly revision: number }>();
  #revision = 0;

  async list(collection: string, { after = '' }: { readonly after?: string } = {}) {
    await new Promise((resolve) => setImmediate(resolve));
    const own = [...this.#records].filter(([key]) => key.startsWith(`${collection} `));
    return own
      .map(([key, record]) => ({ key: key.slice(collection.length + 1), ...record }))
      .filter(({ key }) => key > after)
      .sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  async apply([write]: readonly StoreWrite[]) {
    await new Promise((resolve) => setImmediate(resolve));
    if (this.failing > 0) {
      this.failing--;
      throw new StoreError('unavailable', 'away');
    }
    const { collection, key, expected } = write!;
    const place = `${collection} ${key}`;
    const found = this.#records.get(place)?.revision ?? null;
    if (expected !== undefined && expected !== found) return { ok: false, write: write!, found } as const;
    if (write!.kind === 'delete') this.#records.delete(place);
    else this.#records.set(place, { value: write!.value, revision: ++this.#revision });
    return { ok: true as const, revision: this.#revision };
  }
}

/** The credentials of one node, which seals nothing. `servers`: definitions in force, whose failed renewals are retried. */
export function credentialNode(
  records: Records,
  fetch: GuardedFetch,
  clock: Clock = systemClock,
  changes: string[] = [],
  servers: ReadonlyMap<string, Server> = new Map(),
) {
  return new ServerCredentials({
    clock,
    random: systemRandom,
    logger: new Logger({ level: 'error', write: () => {} }),
    records,
    desired: { state: { agents: new Map(), servers } },
    sealing: OPEN,
    fetch: () => fetch,
    clientMetadataUrl: () => null,
    onChange: ({ server }) => void changes.push(server),
  });
}
