import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Downstream } from '../downstream/downstream.ts';
import type { BodyBudget } from '../http/context/body-budget.ts';
import { PHASES } from '../model/server-state.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { UpstreamSet } from '../upstream/upstream-set.ts';
import type { MemoryWatch } from './memory/memory-watch.ts';

/** Each sample wakes the process. What is recorded is the time since the sample before. */
const LOOP_SAMPLE_MS = 50;

/** Registers the gauges that mirror what the rooms hold; a scrape reads them; they cost nothing before. */
export function registerGauges(
  metrics: Metrics,
  upstreams: UpstreamSet,
  downstream: Downstream,
  watch: MemoryWatch,
  bodies: BodyBudget,
): { close(): void } {
  const sessions = metrics.gauge('trunkline_sessions_open', 'Open sessions of clients held in memory.');
  const calls = metrics.gauge('trunkline_calls_in_flight', 'Calls of clients that are not answered yet.');
  const waitingForInput = metrics.gauge('trunkline_calls_parked', 'Calls that wait for input of their client.');
  const state = metrics.gauge('trunkline_server_state', 'State of each server: 1 for the one it is in.', [
    'server',
    'state',
  ]);
  const restarts = metrics.gauge('trunkline_server_restarts', 'Restarts of each server since the gateway started.', [
    'server',
  ]);
  const failures = metrics.gauge('trunkline_server_consecutive_failures', 'Failed starts in a row.', ['server']);
  const connections = metrics.gauge('trunkline_server_connections', 'Connections to each server.', ['server', 'state']);
  const queue = metrics.gauge('trunkline_server_calls_in_flight', 'Calls sent to each server and not answered.', [
    'server',
  ]);
  const tools = metrics.gauge('trunkline_server_tools', 'Tools that each server offers.', ['server']);
  const phases = metrics.gauge(
    'trunkline_server_phase_seconds',
    'Where the time of requests to remote servers goes, over the last times of each phase.',
    ['server', 'phase', 'quantile'],
  );
  const memory = metrics.gauge('process_resident_memory_bytes', 'Resident memory of the gateway.');
  const taken = metrics.gauge(
    'trunkline_memory_used_ratio',
    'Part of the memory that may be taken, of heap or container, in use; above 1 in the reserve of the heap.',
  );
  const receiving = metrics.gauge(
    'trunkline_request_bodies_bytes',
    'Memory that request bodies hold which are not whole yet, of all listeners.',
  );
  const refused = metrics.counter(
    'trunkline_request_bodies_refused_total',
    'Request bodies refused because that memory was all taken.',
  );
  const delay = metrics.gauge('trunkline_event_loop_delay_seconds', 'Delay of the event loop since the last scrape.', [
    'quantile',
  ]);
  const histogram = monitorEventLoopDelay({ resolution: LOOP_SAMPLE_MS });
  histogram.enable();

  metrics.onScrape(() => {
    sessions.of().set(downstream.sessions.size);
    calls.of().set(downstream.inFlight);
    waitingForInput.of().set(downstream.waitingForInput);
    memory.of().set(process.memoryUsage.rss());
    taken.of().set(watch.share);
    receiving.of().set(bodies.heldBytes);
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
