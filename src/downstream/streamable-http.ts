import type { RequestContext } from '../http/listener/request-context.ts';
import { stackOf } from '../model/thrown.ts';
import { classify, classifyBodyless, isRejection, type Rejection, rejectScan } from '../protocol/classify.ts';
import { isBatch, isScanFailure, scanMessage } from '../protocol/scan.ts';
import type { Logger } from '../telemetry/logger.ts';
import { sendError, sendMessage } from './endpoints/send.ts';
import type { Admitted, Gate } from './identity/gate.ts';
import type { StatefulHandler } from './stateful/stateful-handler.ts';
import type { StatelessHandler } from './stateless/stateless-handler.ts';

interface StreamableHttpDeps {
  readonly gate: Gate;
  readonly stateful: StatefulHandler;
  readonly stateless: StatelessHandler;
  readonly logger: Logger;
}

/**
 * The MCP endpoint over Streamable HTTP, for all revisions that have it. Checks the head, reads the body and determines its
 * era; the handler of that era does the rest.
 */
export class StreamableHttp {
  readonly #deps: StreamableHttpDeps;

  constructor(deps: StreamableHttpDeps) {
    this.#deps = deps;
  }

  post(context: RequestContext, server: string | null): void {
    const admitted = this.#deps.gate.admit(context, server);
    if (admitted === null) return;
    context.readJson((body) => this.#take(context, body, admitted));
  }

  get(context: RequestContext, server: string | null): void {
    const admitted = this.#deps.gate.admit(context, server);
    if (admitted === null) return;
    const { stateful, logger } = this.#deps;
    const { headers } = context;
    const inbound = classifyBodyless(headers);
    const lastEventId = context.header('last-event-id') ?? null;
    if ('reject' in inbound) reject(context, inbound);
    else if (inbound.sessionId === null) sendError(context, 405, 'Method not allowed: no session', '', ALLOW);
    else if (!acceptsEvents(headers.accept)) {
      sendError(context, 406, 'Not acceptable: this stream is text/event-stream');
    } else guard(context, logger, stateful.listen(context, inbound, admitted, lastEventId));
  }

  delete(context: RequestContext, server: string | null): void {
    const admitted = this.#deps.gate.admit(context, server);
    if (admitted === null) return;
    const inbound = classifyBodyless(context.headers);
    if ('reject' in inbound) reject(context, inbound);
    else guard(context, this.#deps.logger, this.#deps.stateful.end(context, inbound, admitted));
  }

  #take(context: RequestContext, body: Buffer, admitted: Admitted): void {
    const { stateful, stateless, logger } = this.#deps;
    const { headers } = context;
    const takesStream = acceptsEvents(headers.accept);
    if (isBatch(body)) {
      const claim = classifyBodyless(headers);
      if (!('reject' in claim) && claim.sessionId !== null) {
        guard(context, logger, stateful.batch(context, claim, body, admitted, takesStream));
        return;
      }
    }
    const message = scanMessage(body, 'stateful', 'strict');
    const inbound = isScanFailure(message) ? rejectScan(headers, message) : classify(headers, message);
    if (isRejection(inbound)) reject(context, inbound);
    else if (inbound.era === 'stateless') stateless.take(context, inbound, admitted, takesStream);
    else guard(context, logger, stateful.take(context, inbound, admitted, takesStream));
  }
}

const ALLOW = ['allow', 'POST'];

function reject(context: RequestContext, rejection: Rejection): void {
  sendMessage(context, rejection.reject, rejection.answer, rejection.reject === 405 ? ALLOW : undefined);
}

/** Whether the answer may be an event stream. Without an `Accept` header the client has to accept either form. */
function acceptsEvents(accept: string | undefined): boolean {
  if (accept === undefined) return true;
  return accept.includes('text/event-stream') || accept.includes('*/*') || accept.includes('text/*');
}

/** For work that continues after its handler returned: an unexpected error is logged and ends that request only. */
function guard(context: RequestContext, logger: Logger, work: Promise<void> | undefined): void {
  work?.catch((error: unknown) => {
    logger.error('request_failed', { path: context.path, reason: stackOf(error) });
    context.fail({ status: 500, code: 'internal', message: 'a defect of the gateway; its log has the details' });
  });
}
