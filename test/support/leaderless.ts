import type { Bucket, SharedState } from '../../src/bus/shared-state.ts';
import type { Server } from '../../src/model/server.ts';
import type { ClusterBench, PlayedNode } from './cluster-bench.ts';
import { openedLate } from './opened-late.ts';

/** The store as nodes see it while its stream has no leader, or while they do not reach the leader. */
export class Leaderless {
  away = false;
  readonly unreached = new Set<string>();
  /** Runs when the store has written a record, before its node has the answer. */
  wrote: (node: string, key: string) => void = () => {};
  readonly bench: ClusterBench;

  constructor(bench: ClusterBench) {
    this.bench = bench;
  }

  join(id: string, servers: readonly Server[]): Promise<PlayedNode> {
    const reached = <T>(work: () => T): T => {
      if (this.away || this.unreached.has(id)) throw new Error('no leader');
      return work();
    };
    const state: SharedState = {
      bucket: (name, options) =>
        openedLate(name, async () => {
          const bucket = reached(() => this.bench.state.bucket(name, options));
          return new Proxy(bucket, {
            get: (target, key: keyof Bucket) => {
              const part = target[key];
              if (typeof part !== 'function') return part;
              return async (...args: never[]) => {
                const answer = await reached(() => (part as (...all: never[]) => unknown).apply(target, args));
                if (key === 'update') this.wrote(id, args[0]!);
                return answer;
              };
            },
          });
        }),
    };
    return this.bench.join(id, servers, { state });
  }
}
