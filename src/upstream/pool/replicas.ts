import { isolationOf } from '../../model/client-profile.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { StateLoss } from '../../model/ports.ts';
import type { ReplicaStatus } from '../../model/server-state.ts';
import { replicaKey, type WantedConnection } from '../connection/session-key.ts';
import type { ServerContext } from '../server-context.ts';
import { ReplicaSet } from './replica-set.ts';
import type { SessionPool } from './session-pool.ts';

const ERAS: readonly Era[] = ['stateful', 'stateless'];

/**
 * The replicas of one server by era, for a server that speaks both runs a process for each. There are none before
 * they are needed, and none where the server is not shared or one process is enough.
 */
export class Replicas {
  readonly #context: ServerContext;
  readonly #pool: SessionPool;
  readonly #sets = new Map<Era, ReplicaSet>();

  constructor(context: ServerContext, pool: SessionPool) {
    this.#context = context;
    this.#pool = pool;
  }

  /** null where one connection serves all. */
  of(era: Era): ReplicaSet | null {
    const known = this.#sets.get(era);
    if (known !== undefined) return known;
    const { server } = this.#context;
    const { replicas = 1 } = server;
    if (replicas === 1 || isolationOf(server, era) !== 'shared') return null;
    const set = new ReplicaSet(era, this.#context, this.#pool);
    this.#sets.set(era, set);
    return set;
  }

  /** The definition has changed. */
  update(): void {
    for (const set of this.#sets.values()) set.resize(this.#context.server.replicas ?? 1);
    for (const era of ERAS) if (this.#pool.ready(replicaKey(era, 1)) !== null) this.of(era);
  }

  /** A connection has got its owner: if it is the first of several replicas, the others are started. */
  opened({ tenancy }: WantedConnection, era: Era): void {
    if (tenancy.kind === 'shared') this.of(era)?.begin();
  }

  /** Whether the end of this connection is made up for here; see `ReplicaSet.crashed`. */
  crashed({ key, tenancy }: WantedConnection, era: Era, error: GatewayError, answered: boolean): boolean {
    return tenancy.kind === 'shared' && this.#sets.get(era)?.crashed(key, error, answered) === true;
  }

  /** null where there is nothing to roll over. */
  restart(): Promise<void> | null {
    const serving = [...this.#sets.values()].filter((set) => set.any() !== null && set.count > 1);
    if (serving.length === 0) return null;
    return Promise.all(serving.map((set) => set.restart())).then(() => {});
  }

  abandonCalls(cause: StateLoss): void {
    for (const set of this.#sets.values()) set.abandonCalls(cause);
  }

  async halt(): Promise<void> {
    await Promise.all([...this.#sets.values()].map((set) => set.halt()));
  }

  release(sessionId: string): void {
    for (const set of this.#sets.values()) set.release(sessionId);
  }

  statuses(): ReplicaStatus[] {
    return [...this.#sets.values()].flatMap((set) => set.statuses());
  }
}
