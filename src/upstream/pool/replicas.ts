import { isolationOf } from '../../model/client-profile.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { StateLoss } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';
import type { ReplicaStatus } from '../../model/server-state.ts';
import { replicaKey, type Wanted } from '../connection/session-key.ts';
import { ReplicaSet, type ReplicaSetDeps } from './replica-set.ts';

export type ReplicasDeps = Omit<ReplicaSetDeps, 'server' | 'era'>;

const ERAS: readonly Era[] = ['stateful', 'stateless'];

/**
 * The replicas of one server by era, for a server that speaks both runs a process for each. There are none before
 * somebody needs them, and none where the server is not shared or one process is enough.
 */
export class Replicas {
  readonly #deps: ReplicasDeps;
  readonly #sets = new Map<Era, ReplicaSet>();
  #server: Server;

  constructor(server: Server, deps: ReplicasDeps) {
    this.#server = server;
    this.#deps = deps;
  }

  /** null where one connection serves all. */
  of(era: Era): ReplicaSet | null {
    const known = this.#sets.get(era);
    if (known !== undefined) return known;
    const { name, replicas = 1 } = this.#server;
    if (replicas === 1 || isolationOf(this.#server, era) !== 'shared') return null;
    const set = new ReplicaSet(replicas, { ...this.#deps, server: name, era });
    this.#sets.set(era, set);
    return set;
  }

  update(server: Server): void {
    this.#server = server;
    for (const set of this.#sets.values()) set.resize(server.replicas ?? 1);
    for (const era of ERAS) if (this.#deps.pool.ready(replicaKey(era, 1)) !== null) this.of(era);
  }

  /** A connection has got its owner: if it is the first of several replicas, the others are started. */
  opened({ tenancy }: Wanted, era: Era): void {
    if (tenancy.kind === 'shared') this.of(era)?.begin();
  }

  /** Whether the end of this connection is made up for here; see `ReplicaSet.crashed`. */
  crashed({ key, tenancy }: Wanted, era: Era, error: GatewayError, answered: boolean): boolean {
    return tenancy.kind === 'shared' && this.#sets.get(era)?.crashed(key, error, answered) === true;
  }

  /** null where there is nothing to roll over. */
  restart(): Promise<void> | null {
    const serving = [...this.#sets.values()].filter((set) => set.any() !== null && set.count > 1);
    if (serving.length === 0) return null;
    return Promise.all(serving.map((set) => set.restart())).then(() => {});
  }

  forsake(cause: StateLoss): void {
    for (const set of this.#sets.values()) set.forsake(cause);
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
