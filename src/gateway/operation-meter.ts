import type { Clock } from '../model/clock.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import { bodyLexeme } from '../protocol/body.ts';
import { isClientRequest, LISTEN } from '../protocol/methods.ts';
import type { Histogram, Metric, Metrics } from '../telemetry/metrics.ts';

/** Methods of clients' own making share one label: they must not be able to make series. */
const OTHER = '_OTHER';

export type RequestEnded = (exchange: Exchange, endpoint: Endpoint, outcome: Outcome, since: number) => void;

/**
 * Durations of what clients asked for, by method and kind of end (OpenTelemetry semantic conventions for MCP). Open
 * streams are no operations and are not measured.
 */
export class OperationMeter {
  readonly #clock: Clock;
  readonly #ended: RequestEnded | undefined;
  readonly #durations: Metric<Histogram>;
  readonly #series = new Map<string, Map<string, Histogram>>();

  constructor(metrics: Metrics, clock: Clock, ended?: RequestEnded) {
    this.#clock = clock;
    this.#ended = ended;
    const help = 'Requests of clients, in seconds.';
    this.#durations = metrics.histogram('mcp_server_operation_duration_seconds', help, [
      'mcp_method_name',
      'error_type',
    ]);
  }

  measured(exchange: Exchange, endpoint: Endpoint, ended: Promise<Outcome>): Promise<Outcome> {
    const { request } = exchange;
    if (request.method === LISTEN) return ended;
    const from = this.#clock.now();
    return ended.then((outcome) => {
      this.#of(request, errorType(outcome)).observe((this.#clock.now() - from) / 1000);
      this.#ended?.(exchange, endpoint, outcome, from);
      return outcome;
    });
  }

  #of({ method, era }: Message, error: string): Histogram {
    const label = isClientRequest(method, era) ? method : OTHER;
    let byError = this.#series.get(label);
    if (byError === undefined) this.#series.set(label, (byError = new Map()));
    let series = byError.get(error);
    if (series === undefined) {
      series = this.#durations.of(label, error);
      byError.set(error, series);
    }
    return series;
  }
}

/** Empty for success; the JSON-RPC code otherwise. A server's codes beyond the usual ones are one kind. */
function errorType(outcome: Outcome): string {
  if (outcome.kind === 'failure') return String(outcome.error.rpcCode);
  const { message } = outcome;
  if (message.kind !== 'error') return '';
  const code = bodyLexeme(message, 'code') ?? '';
  return /^-32\d{3}$/.test(code) ? code : OTHER;
}
