import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf, livingAmong } from '../support/processes.ts';
import type { ClusterNode } from './cluster-node.ts';
import type { ClusterWorld } from './cluster-world.ts';
import type { Misfortune, NemesisPlan, Strike } from './nemesis-plan.ts';

/** One misfortune that happened, in the time of the history. */
export interface Struck {
  readonly kind: Misfortune;
  readonly node: string | null;
  readonly from: number;
  to: number;
}

const SLOWEST_MS = 150;

/** Carries out a plan of misfortune on a cluster. */
export class Nemesis {
  readonly struck: Struck[] = [];
  /** Exit codes other than 0 of nodes that were asked to leave. */
  readonly badExits: string[] = [];
  /** Processes of a killed node that ran for too long after its end. */
  readonly leaked: string[] = [];
  readonly #world: ClusterWorld;
  readonly #reapedMs: number;
  #over = false;

  /** `reapedMs`: how long the processes of a node may outlive it. */
  constructor(world: ClusterWorld, reapedMs: number) {
    this.#world = world;
    this.#reapedMs = reapedMs;
  }

  /** How often each misfortune happened. */
  counts(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { kind } of this.struck) counts[kind] = (counts[kind] ?? 0) + 1;
    return counts;
  }

  /** Runs until the time is over, and returns once the last misfortunes are undone. */
  async run(plan: NemesisPlan, durationMs: number): Promise<void> {
    const timer = setTimeout(() => {
      this.#over = true;
    }, durationMs);
    await Promise.all([this.#follow(plan.nodes), this.#follow(plan.services)]);
    clearTimeout(timer);
  }

  async #follow(strikes: readonly Strike[]): Promise<void> {
    for (const strike of strikes) {
      await sleep(strike.afterMs);
      if (this.#over) return;
      await this.#strike(strike);
    }
  }

  async #strike({ kind, node, forMs }: Strike): Promise<void> {
    const { nodes, nats, database } = this.#world;
    const target = nodes[node]!;
    const service = kind.startsWith('nats') || kind === 'store_kill';
    if (kind === 'store_kill' && database === null) return;
    const struck: Struck = {
      kind,
      node: service || kind === 'roll' ? null : target.name,
      from: performance.now(),
      to: Number.POSITIVE_INFINITY,
    };
    this.struck.push(struck);
    switch (kind) {
      case 'kill':
        await this.#kill(target, forMs);
        break;
      case 'stop':
        target.stop();
        await sleep(forMs);
        await target.goOn();
        break;
      case 'cut':
        target.gate.shut();
        await this.#mend(target, forMs);
        break;
      case 'hold_up':
        target.gate.hold('up');
        await this.#mend(target, forMs);
        break;
      case 'hold_down':
        target.gate.hold('down');
        await this.#mend(target, forMs);
        break;
      case 'hold':
        target.gate.hold('up', 'down');
        await this.#mend(target, forMs);
        break;
      case 'slow':
        target.gate.slow(1 + (forMs % SLOWEST_MS));
        await this.#mend(target, forMs);
        break;
      case 'leave':
        await this.#restart(target);
        break;
      case 'roll':
        for (const each of nodes) await this.#restart(each);
        break;
      case 'nats_kill':
        await nats.kill();
        await sleep(forMs);
        await nats.run();
        break;
      case 'nats_forgets':
        await nats.kill();
        nats.forget();
        await sleep(forMs);
        await nats.run();
        break;
      case 'store_kill':
        await database!.kill();
        await sleep(forMs);
        await database!.run();
    }
    struck.to = performance.now();
  }

  async #kill(target: ClusterNode, forMs: number): Promise<void> {
    const children = childrenOf(target.process!.gateway.process.pid!);
    await target.kill();
    const killedAt = performance.now();
    let left = livingAmong(children);
    while (left.length > 0 && performance.now() - killedAt < this.#reapedMs) {
      await sleep(20);
      left = livingAmong(children);
    }
    const after = performance.now() - killedAt;
    for (const pid of left) this.leaked.push(`process ${pid} of ${target.name} after ${Math.round(after)} ms`);
    await sleep(Math.max(0, forMs - after));
    await target.start();
  }

  async #mend(target: ClusterNode, forMs: number): Promise<void> {
    await sleep(forMs);
    target.gate.open();
    await target.ready();
  }

  async #restart(target: ClusterNode): Promise<void> {
    const code = await target.leave();
    if (code !== 0) this.badExits.push(`${target.name} ended with ${code}`);
    await target.start();
  }
}
