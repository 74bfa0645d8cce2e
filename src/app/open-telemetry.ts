import { hostname } from 'node:os';
import type { Clock } from '../model/clock.ts';
import type { DesiredState, OtlpReceiver, TelemetrySettings } from '../model/desired-state.ts';
import type { Random } from '../model/random.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { OtlpMetrics } from '../telemetry/otlp/otlp-metrics.ts';
import { OtlpSender } from '../telemetry/otlp/otlp-sender.ts';
import { OtlpSpans } from '../telemetry/otlp/otlp-spans.ts';
import { Tracer } from '../telemetry/tracing.ts';
import type { AppOptions } from './app-options.ts';
import type { ClusterConnection } from './cluster/cluster-connection.ts';
import { productVersion } from './version.ts';

const NOTHING: TelemetrySettings = { traces: null, metrics: null };

interface TelemetryParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/**
 * Exports to OpenTelemetry receivers until `close`, which flushes for at most two seconds. An exporter of the embedding
 * program gets the spans instead of a receiver.
 */
export function openTelemetry(
  { state, spans = null }: Pick<AppOptions, 'state' | 'spans'>,
  { telemetry }: DesiredState,
  connection: ClusterConnection | null,
  { clock, random, logger, metrics }: TelemetryParts,
): { readonly tracer: Tracer | null; close(): Promise<void> } {
  const lost = metrics.counter('trunkline_otlp_lost_total', 'Spans and data points that no receiver got.', ['signal']);
  // A command that only reads a configuration exports nothing.
  const { traces, metrics: pushed } = state === 'look' ? NOTHING : telemetry;
  if (traces === null && pushed === null) {
    return { tracer: spans === null ? null : new Tracer(spans, clock, random), close: async () => {} };
  }
  const resource = {
    'service.name': 'trunkline',
    'service.version': productVersion(),
    'service.instance.id': random.hex(8),
    'host.name': hostname(),
    'trunkline.node': connection?.node ?? hostname(),
  };
  const sender = (receiver: OtlpReceiver, signal: string) => new OtlpSender(receiver, lost.of(signal), logger);
  const sent = traces && new OtlpSpans(sender(traces, 'traces'), resource, lost.of('traces'), clock);
  const values = pushed && new OtlpMetrics(sender(pushed, 'metrics'), resource, metrics, pushed.intervalMs, clock);
  const exporter = spans ?? sent;
  return {
    tracer: exporter === null ? null : new Tracer(exporter, clock, random, traces?.sample),
    async close() {
      await Promise.all([sent?.close(), values?.close()]);
    },
  };
}
