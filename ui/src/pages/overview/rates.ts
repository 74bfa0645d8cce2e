import { computed, signal } from '@preact/signals';
import { UNNAMED_CLIENT } from '../../../../src/model/call-labels.ts';
import type { listRates, ServerRate } from '../../api/operations.ts';
import { onLive } from '../../live.ts';
import { type Second, Seconds } from './seconds.ts';

type Rates = Awaited<ReturnType<typeof listRates>>;

interface NodeStats {
  readonly node: string | null;
  readonly sessions: number;
  readonly servers: readonly ServerRate[];
  /** When it was heard, by this page's clock. */
  readonly at: number;
}

/** A node that has said nothing for so long is not counted any more. */
const SILENT_MS = 5_000;
/** A rate of one second jumps: the pictures show the mean of so many. */
const SMOOTH_SECONDS = 5;
/** A client without a session is shown for so long after its last call. */
const CALLER_MS = 60_000;

export const nodeStats = signal<ReadonlyMap<string, NodeStats>>(new Map());
export const seconds = signal<readonly Second[]>([]);

/** What goes one way, from a client to a node or from a node to a server; or through a node. */
export interface Edge {
  readonly perSecond: number;
  readonly errors: number;
  readonly p95: number | null;
  readonly inFlight: number;
}

type Rate = Pick<ServerRate, 'calls' | 'errors' | 'p95' | 'inFlight'>;

const recent = new Map<string, { readonly time: number; readonly rate: Rate }[]>();
/** By `edgeOf`. */
export const edges = signal<ReadonlyMap<string, Edge>>(new Map());
/** Clients that have called lately, by name and version. Those of 2026-07-28 have no session. */
export const callers = signal<ReadonlyMap<string, { readonly revision: string; readonly at: number }>>(new Map());
/** The key of an edge; a lone gateway is the node without a name. */
export const edgeOf = {
  client: (client: string, node: string): string => `${client} calls ${node}`,
  server: (node: string, server: string): string => `${node} uses ${server}`,
  node: (node: string): string => `${node} serves`,
};

const heard = new Seconds();

/** Follows the live stream while the overview is shown. */
export function followRates(): () => void {
  return onLive('stats', ({ node, sessions, servers, clients, ...second }) => {
    const now = Date.now();
    const stats = new Map(nodeStats.value).set(node ?? '', { node, sessions, servers, at: now });
    for (const [name, { at }] of stats) if (now - at > SILENT_MS) stats.delete(name);
    nodeStats.value = stats;
    for (const rate of servers) keep(edgeOf.server(node ?? '', rate.server), now, rate);
    for (const rate of clients)
      keep(edgeOf.client(rate.client ?? UNNAMED_CLIENT, node ?? ''), now, { ...rate, inFlight: 0 });
    const inFlight = servers.reduce((sum, one) => sum + one.inFlight, 0);
    keep(edgeOf.node(node ?? ''), now, { ...second, inFlight });
    const left = [...callers.value].filter(([, { at }]) => now - at < CALLER_MS);
    const seen = clients.map(({ client, revision }) => [client ?? UNNAMED_CLIENT, { revision, at: now }] as const);
    if (left.length < callers.value.size || seen.length > 0) callers.value = new Map([...left, ...seen]);
    edges.value = smoothed(now);
    addSeconds([{ node, seconds: [second] }]);
  });
}

/** Adds what nodes say of seconds, also of those before the overview was opened. */
export function addSeconds(nodes: Rates['nodes']): void {
  for (const { node, seconds: said } of nodes) for (const second of said) heard.add(node, second);
  seconds.value = heard.all;
}

function keep(key: string, time: number, rate: Rate): void {
  recent.set(key, [...(recent.get(key) ?? []), { time, rate }]);
}

function smoothed(now: number): ReadonlyMap<string, Edge> {
  const found = new Map<string, Edge>();
  for (const [key, all] of recent) {
    const rates = all.filter(({ time }) => now - time < SMOOTH_SECONDS * 1_000);
    recent.set(key, rates);
    if (rates.length === 0) {
      recent.delete(key);
      continue;
    }
    const sum = (of: (rate: Rate) => number): number => rates.reduce((total, { rate }) => total + of(rate), 0);
    const times = rates.flatMap(({ rate }) => rate.p95 ?? []);
    found.set(key, {
      perSecond: sum(({ calls }) => calls) / SMOOTH_SECONDS,
      errors: sum(({ errors }) => errors),
      p95: times.length === 0 ? null : Math.max(...times),
      inFlight: rates.at(-1)!.rate.inFlight,
    });
  }
  return found;
}

export const totals = computed(() => {
  const stats = [...nodeStats.value.values()];
  // Of the newest second some nodes have not yet spoken.
  const last = seconds.value.slice(-SMOOTH_SECONDS - 1, -1);
  const mean = (of: (second: Second) => number): number =>
    last.length === 0 ? 0 : last.reduce((sum, second) => sum + of(second), 0) / last.length;
  const worst = (of: (second: Second) => number | null): number | null => {
    const known = last.flatMap((second) => of(second) ?? []);
    return known.length === 0 ? null : Math.max(...known);
  };
  return {
    perSecond: mean(({ calls }) => calls),
    errors: mean(({ errors }) => errors),
    sessions: stats.reduce((sum, { sessions }) => sum + sessions, 0),
    p50: worst(({ p50 }) => p50),
    p95: worst(({ p95 }) => p95),
    p99: worst(({ p99 }) => p99),
  };
});
