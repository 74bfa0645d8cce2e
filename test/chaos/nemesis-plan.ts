import { Seeded } from './seeded.ts';

/** Misfortunes of one node: at most one of these goes on at any time. */
const OF_NODES = ['kill', 'kill', 'stop', 'cut', 'hold_up', 'hold_down', 'hold', 'slow', 'leave'] as const;
/** A restart of all nodes in turn, in runs that are long enough. */
const OF_LONG_RUNS = ['roll'] as const;
const LONG_MS = 5 * 60_000;
/** Misfortunes of the services that all nodes need, at the same time. */
const OF_SERVICES = ['nats_kill', 'nats_kill', 'nats_forgets', 'store_kill'] as const;

export type Misfortune = (typeof OF_NODES)[number] | (typeof OF_LONG_RUNS)[number] | (typeof OF_SERVICES)[number];

/** One misfortune: its kind, the pause after the end of the previous one, the node, and the duration. */
export interface Strike {
  readonly kind: Misfortune;
  readonly afterMs: number;
  /** Index of a node. */
  readonly node: number;
  readonly forMs: number;
}

/** Two sequences that go on beside each other. */
export interface NemesisPlan {
  readonly nodes: readonly Strike[];
  readonly services: readonly Strike[];
}

export interface PlanOptions {
  readonly seed: number;
  readonly durationMs: number;
  readonly nodes: number;
  /** Mean time between two misfortunes of nodes; those of services come at a sixth of that rate. */
  readonly everyMs: number;
  /** Longest that a node is stopped. */
  readonly stopMs: number;
}

/** Longest a misfortune lasts. A link is as slow as that of another continent; the lease has to survive it. */
const LASTS_MS: Readonly<Record<Misfortune, number>> = {
  kill: 3_000,
  stop: 0,
  cut: 6_000,
  hold_up: 6_000,
  hold_down: 6_000,
  hold: 6_000,
  slow: 5_000,
  leave: 0,
  roll: 0,
  nats_kill: 5_000,
  nats_forgets: 3_000,
  store_kill: 4_000,
};

/** All misfortunes of a run, from its seed alone: each kind comes as often as it is listed before any comes again. */
export function planNemesis({ seed, durationMs, nodes, everyMs, stopMs }: PlanOptions): NemesisPlan {
  const random = new Seeded(seed);
  const sequence = (kinds: readonly Misfortune[], meanMs: number): Strike[] => {
    const strikes: Strike[] = [];
    let bag: Misfortune[] = [];
    for (let ms = 0; ms < durationMs; ) {
      if (bag.length === 0) bag = [...kinds];
      const [kind] = bag.splice(random.below(bag.length), 1) as [Misfortune];
      const afterMs = Math.round(meanMs * (0.5 + random.unit()));
      const longest = kind === 'stop' ? stopMs : LASTS_MS[kind];
      const forMs = Math.round(longest * (0.1 + 0.9 * random.unit()));
      strikes.push({ kind, afterMs, node: random.below(nodes), forMs });
      ms += afterMs + forMs;
    }
    return strikes;
  };
  const ofNodes = durationMs < LONG_MS ? OF_NODES : [...OF_NODES, ...OF_LONG_RUNS];
  return { nodes: sequence(ofNodes, everyMs), services: sequence(OF_SERVICES, 6 * everyMs) };
}
