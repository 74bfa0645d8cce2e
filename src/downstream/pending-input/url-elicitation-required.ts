import type { Endpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { errorCode } from '../../protocol/body.ts';
import { missingCapability, missingCapabilityError } from '../../protocol/client-capabilities.ts';
import { elements, fieldAt, type Range } from '../../protocol/fields.ts';
import { inputRequest, takesInput } from '../../protocol/stateless/input-required.ts';
import type { ClientExchange } from '../session/client-exchange.ts';
import type { PendingInputRequests } from './pending-input-requests.ts';

const METHOD = 'elicitation/create';
/** Error code of 2025-11-25 only (client/elicitation §URL Elicitation Required Error). */
const URL_ELICITATION_REQUIRED = -32042;

/**
 * Translates a stateful server's error that its user must first visit a page. 2026-07-28 has no such error: its clients get
 * the pages as input requests and then retry the call. Returns all other outcomes unchanged.
 */
export function withUrlElicitations(
  outcome: Outcome,
  exchange: ClientExchange,
  endpoint: Endpoint,
  pendingInput: PendingInputRequests,
): Outcome {
  if (outcome.kind === 'failure' || !isUrlElicitationRequired(outcome.message)) return outcome;
  const { message } = outcome;
  const { bytes, bodyStart, bodyEnd } = message;
  const list = fieldAt(bytes, bodyStart, bodyEnd, ['data', 'elicitations']);
  const pages = list === null ? [] : [...elements(bytes, list.start, list.end)];
  const broken = pages.length === 0 || pages.some((page) => bytes[page.start] !== 0x7b);
  if (broken || !takesInput(exchange.request.method)) {
    return failure(new GatewayError('UPSTREAM_PROTOCOL', 'the server wants its user on a page, and names none'));
  }
  for (const page of pages) {
    const missing = missingCapability(exchange.client.capabilities, METHOD, bytes, page);
    if (missing === null) continue;
    return answer(missingCapabilityError('the server', METHOD, missing));
  }
  try {
    return answer(pendingInput.requireInputForRerun(exchange, endpoint, questions(bytes, pages)));
  } catch (cause) {
    if (cause instanceof GatewayError) return failure(cause);
    throw cause;
  }
}

function isUrlElicitationRequired(message: Message): boolean {
  return message.kind === 'error' && message.era === 'stateful' && errorCode(message) === URL_ELICITATION_REQUIRED;
}

function questions(bytes: Buffer, pages: readonly Range[]): Buffer {
  const parts: Buffer[] = [];
  pages.forEach((page, i) => {
    parts.push(Buffer.from(`${i === 0 ? '{' : ','}"ask${i + 1}":`), inputRequest(METHOD, bytes, page));
  });
  parts.push(Buffer.from('}'));
  return Buffer.concat(parts);
}
