import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Downstream } from '../downstream/downstream.ts';
import type { BodyBudget } from '../http/context/body-budget.ts';
import { PHASES } from '../model/server-state.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { UpstreamSet } from '../upstream/upstream-set.ts';
import type { MemoryWatch } from './memory/memory-watch.ts';

/** Each sample wakes the process, and records the time since the previous sample. */
const LOOP_SAMPLE_MS = 50;

/** Registers the gauges of the components. Scrapes read them; only the delay of the event loop is sampled all the time. */
export function registerGauges(
  metrics: Metrics,
  upstreams: UpstreamSet,
  downstream: Downstream,
  watch: MemoryWatch,
  bodies: BodyBudget,
): { close(): void } {
  const mirror = (name: string, help: string, read: () => number): void => {
    const gauge = metrics.gauge(name, help).of();
    metrics.onScrape(() => gauge.set(read()));
  };
  mirror('trunkline_sessions_open', 'Open sessions of clients held in memory.', () => downstream.sessions.size);
  mirror('trunkline_calls_in_flight', 'Calls of clients that are not answered yet.', () => downstream.inFlight);
  const parked = 'Calls that wait for input of their client.';
  mirror('trunkline_calls_parked', parked, () => downstream.waitingForInput);
  mirror('process_resident_memory_bytes', 'Resident memory of the gateway.', () => process.memoryUsage.rss());
  mirror(
    'trunkline_memory_used_ratio',
    'Part of the memory that may be taken, of heap or container, in use; above 1 in the reserve of the heap.',
    () => watch.share,
  );
  mirror(
    'trunkline_request_bodies_bytes',
    'Memory that request bodies hold which are not whole yet, of all listeners.',
    () => bodies.heldBytes,
  );
  const refused = metrics.counter(
    'trunkline_request_bodies_refused_total',
    'Request bodies refused because that memory was all taken.',
  );
  const ofServers = (name: string, help: string, ...labels: readonly string[]) =>
    metrics.gauge(name, help, ['server', ...labels]);
  const state = ofServers('trunkline_server_state', 'State of each server: 1 for the one it is in.', 'state');
  const restarts = ofServers('trunkline_server_restarts', 'Restarts of each server since the gateway started.');
  const failures = ofServers('trunkline_server_consecutive_failures', 'Failed starts in a row.');
  const connections = ofServers('trunkline_server_connections', 'Connections to each server.', 'state');
  const queue = ofServers('trunkline_server_calls_in_flight', 'Calls sent to each server and not answered.');
  const tools = ofServers('trunkline_server_tools', 'Tools that each server offers.');
  const spent = 'Where the time of requests to remote servers goes, over the last times of each phase.';
  const phases = metrics.summary('trunkline_server_phase_seconds', spent, ['server', 'phase', 'quantile']);
  const lateness = 'Delay of the event loop since the last scrape.';
  const delay = metrics.summary('trunkline_event_loop_delay_seconds', lateness, ['quantile']);
  const histogram = monitorEventLoopDelay({ resolution: LOOP_SAMPLE_MS });
  histogram.enable();

  metrics.onScrape(() => {
    refused.of().set(bodies.refused);
    for (const [label, percent] of [
      ['0.5', 50],
      ['0.99', 99],
      ['1', 100],
    ] as const) {
      delay.of(label).set(Math.max(0, histogram.percentile(percent) / 1e6 - LOOP_SAMPLE_MS) / 1e3);
    }
    histogram.reset();
    for (const metric of [state, restarts, failures, connections, queue, tools, phases]) metric.clear();
    for (const status of upstreams.statuses()) {
      state.of(status.name, status.state).set(1);
      restarts.of(status.name).set(status.restarts);
      failures.of(status.name).set(status.consecutiveFailures);
      tools.of(status.name).set(status.toolCount);
      queue.of(status.name).set(status.connections.reduce((sum, one) => sum + one.inFlight, 0));
      for (const phase of PHASES) {
        const figures = status.phases?.[phase];
        if (figures == null) continue;
        const name = phase === 'firstByte' ? 'first_byte' : phase;
        phases.of(status.name, name, '0.5').set(figures.p50Ms / 1e3);
        phases.of(status.name, name, '0.95').set(figures.p95Ms / 1e3);
      }
      for (const one of status.connections) connections.of(status.name, one.state).add();
    }
  });
  return { close: () => histogram.disable() };
}
