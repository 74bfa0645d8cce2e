import { computed, signal } from '@preact/signals';
import { UNNAMED_CLIENT } from '../../../../src/model/call-words.ts';
import type { Call, ServerRate } from '../../api/operations.ts';
import { onLive, untilAll } from '../../live.ts';

/** One second of all nodes. */
interface Second {
  /** Seconds since 1970. */
  readonly time: number;
  readonly calls: number;
  readonly errors: number;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

interface NodeStats {
  readonly node: string | null;
  readonly calls: number;
  readonly sessions: number;
  readonly servers: readonly ServerRate[];
  /** When it was heard, by this page's clock. */
  readonly at: number;
}

const KEPT_SECONDS = 300;
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

type Rate = Omit<ServerRate, 'server' | 'p50'>;

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

let taken: Call[] = [];

/** Follows the live stream while the overview is shown. */
export function followRates(): () => void {
  return untilAll(
    onLive('stats', ({ node, calls, sessions, servers }) => {
      const now = Date.now();
      const stats = new Map(nodeStats.value).set(node ?? '', { node, calls, sessions, servers, at: now });
      for (const [name, { at }] of stats) if (now - at > SILENT_MS) stats.delete(name);
      nodeStats.value = stats;
      for (const rate of servers) keep(edgeOf.server(node ?? '', rate.server), now, rate);
      keep(edgeOf.node(node ?? ''), now, {
        calls,
        errors: servers.reduce((sum, { errors }) => sum + errors, 0),
        p95: servers.reduce<number | null>((most, { p95 }) => (p95 === null ? most : Math.max(most ?? 0, p95)), null),
        inFlight: servers.reduce((sum, { inFlight }) => sum + inFlight, 0),
      });
      const left = [...callers.value].filter(([, { at }]) => now - at < CALLER_MS);
      if (left.length < callers.value.size) callers.value = new Map(left);
      edges.value = smoothed(now);
      addSecond(now);
    }),
    onLive('calls', ({ calls }) => {
      taken.push(...calls);
      const now = Date.now();
      const seen = new Map(callers.value);
      for (const { client, revision } of calls) seen.set(client ?? UNNAMED_CLIENT, { revision, at: now });
      callers.value = seen;
      for (const [key, own] of Map.groupBy(calls, ({ client, node }) =>
        edgeOf.client(client ?? UNNAMED_CLIENT, node ?? ''),
      )) {
        const times = own.map(({ ms }) => ms).sort((a, b) => a - b);
        const errors = own.filter(({ error }) => error !== null).length;
        keep(key, now, { calls: own.length, errors, p95: times[Math.floor(0.95 * times.length)]!, inFlight: 0 });
      }
    }),
  );
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

/** Each node speaks once a second: the first that does so ends the second of all. */
function addSecond(now: number): void {
  const time = Math.floor(now / 1_000);
  if (seconds.value.at(-1)?.time === time) return;
  const times = taken.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (share: number): number | null =>
    times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? null;
  const calls = [...nodeStats.value.values()].reduce((sum, stats) => sum + stats.calls, 0);
  const errors = taken.filter(({ error }) => error !== null).length;
  taken = [];
  const second = { time, calls, errors, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
  seconds.value = [...seconds.value, second].slice(-KEPT_SECONDS);
}

export const totals = computed(() => {
  const stats = [...nodeStats.value.values()];
  const last = seconds.value.slice(-SMOOTH_SECONDS);
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
