import type { Listener } from '../http/listener/listener.ts';
import type { RequestContext } from '../http/listener/request-context.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { digestOf, hasBearerToken } from './bearer.ts';

/**
 * `/metrics`. The control tokens read it, as does `metrics.token`, which opens nothing else. On a listener of its own the page
 * is open if there is no `metrics.token`.
 */
export class MetricsPage {
  readonly #metrics: Metrics;
  readonly #control: readonly Buffer[];
  #own: Buffer | null = null;

  /** `control`: digests of the control tokens. */
  constructor(metrics: Metrics, control: readonly Buffer[]) {
    this.#metrics = metrics;
    this.#control = control;
  }

  /** Sets `metrics.token`; null for none. */
  set token(token: string | null) {
    this.#own = token === null ? null : digestOf(token);
  }

  register(listener: Listener, mayBeOpen: boolean): void {
    listener.routes.add('/metrics', {
      GET: (context) => {
        if ((mayBeOpen && this.#own === null) || this.#authorized(context)) {
          const text = Buffer.from(this.#metrics.exposition());
          context.answer(200, 'text/plain; version=0.0.4; charset=utf-8', text);
        }
      },
    });
  }

  #authorized(context: RequestContext): boolean {
    if (hasBearerToken(context, this.#own === null ? this.#control : [...this.#control, this.#own])) return true;
    context.refuse({
      status: 401,
      code: 'token_required',
      message: 'send Authorization: Bearer with metrics.token of the configuration, or with the control token',
      headers: ['WWW-Authenticate', 'Bearer realm="trunkline metrics"'],
    });
    return false;
  }
}
