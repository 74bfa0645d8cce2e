import type { Exchange } from '../model/exchange.ts';
import { isClientRequest } from '../protocol/methods.ts';
import { errorLabel } from '../protocol/trace-context.ts';
import { type Histogram, type Metric, type Metrics, madeIn, OTHER } from '../telemetry/metrics.ts';

/** Tools of one server with series of their own, and servers, in the life of the process: peers must not be able to create series. */
const MAX_TOOLS = 200;
const MAX_SERVERS = 1_000;

type ByError = Map<string, Histogram>;

/**
 * Durations of clients' requests by method, server, tool and error type (OpenTelemetry semantic conventions for MCP). Only
 * tools that their server lists have series of their own, up to a limit.
 */
export class OperationDurations {
  readonly #durations: Metric<Histogram>;
  /** By server and tool. */
  readonly #tools = new Map<string, Map<string, ByError>>();
  /** By server and method, for all other requests. */
  readonly #methods = new Map<string, Map<string, ByError>>();

  constructor(metrics: Metrics) {
    const name = 'mcp_server_operation_duration_seconds';
    const labels = ['mcp_method_name', 'error_type', 'server', 'gen_ai_tool_name'];
    this.#durations = metrics.histogram(name, 'Requests of clients, in seconds.', labels);
  }

  /** `server`: the target's server; null for none. `error`: as `errorTypeOf` returns it. */
  observe(exchange: Exchange, server: string | null, error: string | null, seconds: number): void {
    this.#seriesOf(exchange, server ?? '', errorLabel(error)).observe(seconds);
  }

  #seriesOf({ request, target }: Exchange, server: string, kind: string): Histogram {
    const { method } = request;
    if (method !== 'tools/call' || target === undefined || typeof target.name !== 'string') {
      const label = isClientRequest(method, request.era) ? method : OTHER;
      return this.#series(this.#methods, server, label, kind, label, '');
    }
    const { name } = target;
    const known = this.#tools.get(server)?.get(name)?.get(kind);
    if (known !== undefined) return known;
    const has = this.#tools.get(server);
    const own = has?.has(name) === true || (target.definition != null && (has?.size ?? 0) < MAX_TOOLS);
    const tool = own ? name : OTHER;
    return this.#series(this.#tools, server, tool, kind, method, tool);
  }

  #series(
    all: Map<string, Map<string, ByError>>,
    server: string,
    key: string,
    kind: string,
    method: string,
    tool: string,
  ): Histogram {
    const label = all.has(server) || all.size < MAX_SERVERS ? server : OTHER;
    const ofServer = madeIn(all, label, () => new Map<string, ByError>());
    const byError = madeIn(ofServer, key, () => new Map<string, Histogram>());
    return madeIn(byError, kind, () => this.#durations.of(method, kind, label, tool));
  }
}
