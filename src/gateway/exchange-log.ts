import type { Endpoint, Exchange } from '../model/exchange.ts';
import type { Outcome } from '../model/outcome.ts';
import { isClientRequest } from '../protocol/methods.ts';
import type { Logger } from '../telemetry/logger.ts';
import { sessionLabel } from '../telemetry/session-label.ts';

/**
 * How exchanges ended, in the log: with their request, session and server, so that an operator finds a failure. What a server
 * answered, and what was refused, is logged at `debug` only, because callers could fill the log with it. Nothing that a
 * client wrote becomes part of a line.
 */
export class ExchangeLog {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Hands the outcome back. */
  ended(exchange: Exchange, endpoint: Endpoint, outcome: Outcome): Outcome {
    if (outcome.kind === 'answer') {
      if (this.#logger.level === 'debug') {
        this.#logger.debug('call_answered', { ...facts(exchange, endpoint.server), kind: outcome.message.kind });
      }
      return outcome;
    }
    const { error } = outcome;
    const refused = error.outcome === 'REFUSED';
    if (refused && this.#logger.level !== 'debug') return outcome;
    const fields = { ...facts(exchange, error.data.server ?? endpoint.server), code: error.code };
    if (refused) this.#logger.debug('call_refused', fields);
    else this.#logger.info('call_failed', { ...fields, outcome: error.outcome, reason: error.message });
    return outcome;
  }
}

function facts({ id, request, client }: Exchange, server: string): Record<string, unknown> {
  return {
    request: id,
    ...(client.sessionId === null ? {} : { session: sessionLabel(client.sessionId) }),
    ...(server === '' ? {} : { server }),
    method: isClientRequest(request.method, request.era) ? request.method : '_OTHER',
  };
}
