import { markedProcesses, survivors } from '../support/processes.ts';
import type { FaultBench } from './fault-bench.ts';

export interface GatewayCycles {
  /** Servers' processes that were seen running. */
  readonly started: number;
  /** Processes that were left after the cycles. */
  readonly leaked: readonly number[];
  /** The time from the end of the gateway's process to the end of its last server, in each cycle. */
  readonly goneMs: readonly number[];
  /** The same, for the cycles that ended with kill -9. */
  readonly killedMs: readonly number[];
}

export interface GatewayCyclesOptions {
  readonly cycles: number;
  /** Whether the gateway of this cycle is killed with -9; otherwise it is stopped with SIGTERM. */
  readonly kills: (cycle: number) => boolean;
  readonly onCycle?: (done: number) => void;
}

/** Starts a gateway with four servers and ends it, again and again, and counts what it leaves behind (G7). */
export async function gatewayCycles(bench: FaultBench, options: GatewayCyclesOptions): Promise<GatewayCycles> {
  const names = ['one', 'two', 'three', 'four'];
  const servers = Object.fromEntries(names.map((name) => [name, bench.stdio(name)]));
  const goneMs: number[] = [];
  const killedMs: number[] = [];
  let started = 0;
  for (let i = 0; i < options.cycles; i++) {
    await bench.start(servers);
    // Some gateways are ended in the middle of their start.
    if (i % 3 !== 2) await bench.gateway.ready();
    started += markedProcesses(bench.mark).length;
    const kill = options.kills(i);
    await bench.gateway.stop(kill ? 'SIGKILL' : 'SIGTERM');
    const before = performance.now();
    if ((await survivors(bench.mark, 10_000)).length > 0) break;
    const ms = performance.now() - before;
    goneMs.push(ms);
    if (kill) killedMs.push(ms);
    options.onCycle?.(i + 1);
  }
  return { started, leaked: await survivors(bench.mark, 1_000), goneMs, killedMs };
}
