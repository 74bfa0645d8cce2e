import type { Logger } from '../telemetry/logger.ts';
import type { LoopWatch } from './lease/loop-watch.ts';
import { type Regained, STOP_MS } from './lease/node-lease.ts';
import type { OwnNode } from './lease/own-node.ts';
import type { Claim } from './ownership/held-claims.ts';
import type { OwnServers } from './ownership/own-servers.ts';
import type { OwnedCalls } from './ownership/owned-calls.ts';
import type { ClusterUpstreamSessions } from './upstream-sessions/cluster-upstream-sessions.ts';

export interface UnderLeaseDeps {
  readonly logger: Logger;
  readonly loop: LoopWatch;
  readonly self: OwnNode;
  readonly owned: OwnedCalls;
  readonly servers: OwnServers;
  readonly streams: ClusterUpstreamSessions['streams'];
  /** The others hear of the state of this node. */
  readonly tell: () => void;
}

/** All that the lease of this node covers: what becomes of it when the lease is over, and when it is back. */
export class UnderLease {
  readonly #deps: UnderLeaseDeps;

  constructor(deps: UnderLeaseDeps) {
    this.#deps = deps;
  }

  async regained(how: Regained): Promise<void> {
    const { logger, self, owned, servers, streams, tell } = this.#deps;
    await owned.claims.regained(how);
    queueMicrotask(() => {
      self.held();
      logger.info('node_lease_held', { epoch: self.epoch, how });
      tell();
      servers.look();
      streams.regained();
    });
  }

  /**
   * The lease is over. After a pause of this process others have long taken what it owned: everything of that ends. When
   * only the store cannot be reached the processes are kept, silent, in case nobody else has taken them.
   */
  fenced(): void {
    const { logger, loop, owned, streams, tell } = this.#deps;
    const paused = loop.stoodStill(STOP_MS);
    logger.error('node_fenced', { paused, owned: owned.claims.size });
    owned.fence(() => true);
    streams.fenced();
    if (paused) for (const claim of owned.claims.abandon()) this.lost(claim);
    tell();
  }

  /** The claim is this node's no more. */
  lost(claim: Claim): void {
    const { owned, servers, streams } = this.#deps;
    if (streams.lost(claim)) return;
    owned.fence((one) => one === claim);
    servers.lost(claim);
  }
}
