import { Histogram, type Metric, type Metrics, type Series } from '../metrics.ts';
import type { EndedSpan } from '../tracing.ts';

/** The attributes of the sender. */
export type OtlpResource = Readonly<Record<string, string>>;

const KINDS = { internal: '1', server: '2', client: '3' } as const;
const CUMULATIVE = 2;
/** Labels with dots, which Prometheus does not allow. */
const DOTTED: Readonly<Record<string, string>> = {
  mcp_method_name: 'mcp.method.name',
  mcp_protocol_version: 'mcp.protocol.version',
  error_type: 'error.type',
  gen_ai_tool_name: 'gen_ai.tool.name',
};

/** An `ExportTraceServiceRequest` in the JSON form of OTLP 1. */
export function spansJson(resource: OtlpResource, spans: readonly EndedSpan[]): string {
  const scope = JSON.stringify(scopeOf(resource));
  const attributes = JSON.stringify(attributesOf(resource));
  return `{"resourceSpans":[{"resource":{"attributes":${attributes}},"scopeSpans":[{"scope":${scope},"spans":[${spans.map(spanJson).join(',')}]}]}]}`;
}

/** One span of the request, written without intermediate objects. */
function spanJson(span: EndedSpan): string {
  const { traceId, spanId, parentId, name, kind, startedAt, durationMs, attributes, links } = span;
  const parts = ['{"traceId":"', traceId, '","spanId":"', spanId];
  if (parentId !== null) parts.push('","parentSpanId":"', parentId);
  parts.push('","name":', JSON.stringify(name), ',"kind":', KINDS[kind]);
  parts.push(',"startTimeUnixNano":"', nanos(startedAt), '","endTimeUnixNano":"', nanos(startedAt + durationMs));
  let before = '","attributes":[{"key":"';
  for (const key in attributes) {
    parts.push(before, key, '","value":{"stringValue":', JSON.stringify(attributes[key]));
    before = '}},{"key":"';
  }
  parts.push(before.startsWith('}') ? '}}]' : '","attributes":[]');
  if (links.length > 0) {
    const linked = links.map((link) => ({ traceId: link.slice(3, 35), spanId: link.slice(36, 52) }));
    parts.push(',"links":', JSON.stringify(linked));
  }
  parts.push(attributes['error.type'] === undefined ? '}' : ',"status":{"code":2}}');
  return parts.join('');
}

/** An `ExportMetricsServiceRequest`, and its number of data points. */
export function metricsJson(
  resource: OtlpResource,
  all: Metrics,
  startedAt: number,
  at: number,
): { readonly text: string; readonly points: number } {
  const times = { startTimeUnixNano: nanos(startedAt), timeUnixNano: nanos(at) };
  let points = 0;
  const metrics: object[] = [];
  for (const family of all.families()) {
    const dataPoints = [...family.series()].map(([labels, series]) => ({
      ...times,
      ...pointOf(family, labels, series),
    }));
    points += dataPoints.length;
    if (dataPoints.length > 0) metrics.push(metricOf(family, dataPoints));
  }
  const scopeMetrics = [{ scope: scopeOf(resource), metrics }];
  const text = JSON.stringify({
    resourceMetrics: [{ resource: { attributes: attributesOf(resource) }, scopeMetrics }],
  });
  return { text, points };
}

/** Under the name of the OpenTelemetry conventions, of which the family's name is the Prometheus form. */
function metricOf({ name, help, type }: Metric<Series | Histogram>, dataPoints: readonly object[]): object {
  const inSeconds = name.endsWith('_seconds');
  const common = {
    name: name.startsWith('mcp_') ? name.replace(/_seconds$/, '').replaceAll('_', '.') : name,
    description: help,
    ...(inSeconds ? { unit: 's' } : {}),
  };
  if (type === 'gauge' || type === 'summary') return { ...common, gauge: { dataPoints } };
  if (type === 'histogram') return { ...common, histogram: { dataPoints, aggregationTemporality: CUMULATIVE } };
  return { ...common, sum: { dataPoints, aggregationTemporality: CUMULATIVE, isMonotonic: true } };
}

function pointOf(
  { labelNames }: Metric<Series | Histogram>,
  labels: readonly string[],
  series: Series | Histogram,
): object {
  const named = labelNames.map((label, i) => [DOTTED[label] ?? label, labels[i] ?? ''] as const);
  const point = { attributes: attributesOf(Object.fromEntries(named.filter(([, value]) => value !== ''))) };
  if (!(series instanceof Histogram)) return { ...point, asDouble: series.value };
  return {
    ...point,
    count: String(series.count),
    sum: series.sum,
    bucketCounts: series.counts.map(String),
    explicitBounds: series.bounds,
  };
}

function scopeOf(resource: OtlpResource): object {
  return { name: resource['service.name'], version: resource['service.version'] };
}

function attributesOf(values: Readonly<Record<string, string>>): readonly object[] {
  return Object.entries(values).map(([key, stringValue]) => ({ key, value: { stringValue } }));
}

/** Nanoseconds as text: they exceed the integers of a double. */
function nanos(ms: number): string {
  const whole = Math.floor(ms);
  return `${whole}${String(1e6 + Math.floor((ms - whole) * 1e6)).slice(1)}`;
}
