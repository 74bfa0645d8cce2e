import type { Bucket, SharedState } from '../../src/bus/shared-state.ts';
import type { Server } from '../../src/model/server.ts';
import type { ClusterBench, PlayedNode } from './cluster-bench.ts';
import { openedLate } from './opened-late.ts';

/** The store as nodes see it while its stream has no leader, or while they do not reach the leader. */
export class Leaderless {
  away = false;
  readonly unreached = new Set<string>();
  /** Runs when the store has written a record, before its node has the answer. */
  wrote: (node: string, key: string, value: Buffer) => void = () => {};
  /** How long a request is on its way to the store, and its answer back. */
  delayMs: (node: string, bucket: string, part: keyof Bucket) => number = () => 0;
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
          await this.#travel(id, name, 'readIncarnation');
          const bucket = reached(() => this.bench.state.bucket(name, options));
          return new Proxy(bucket, {
            get: (target, key: keyof Bucket) => {
              const part = target[key];
              if (typeof part !== 'function') return part;
              return async (...args: never[]) => {
                await this.#travel(id, name, key);
                const answer = await reached(() => (part as (...all: never[]) => unknown).apply(target, args));
                if (key === 'update' && answer !== null) this.wrote(id, args[0]!, args[1]!);
                await this.#travel(id, name, key);
                return answer;
              };
            },
          });
        }),
    };
    return this.bench.join(id, servers, { state });
  }

  async #travel(node: string, bucket: string, part: keyof Bucket): Promise<void> {
    const ms = this.delayMs(node, bucket, part);
    if (ms > 0) await new Promise<void>((arrived) => this.bench.clock.after(ms, arrived));
  }
}
