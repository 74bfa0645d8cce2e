import type { Endpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { undeclared } from '../../protocol/askable.ts';
import { errorAnswer } from '../../protocol/compose.ts';
import { elements, field, fieldAt, type Range } from '../../protocol/fields.ts';
import { takesInput } from '../../protocol/stateless/input-required.ts';
import type { ClientExchange } from '../session/client-exchange.ts';
import { withoutId } from './open-questions.ts';
import type { ParkingLot } from './parking-lot.ts';

const METHOD = 'elicitation/create';
const MISSING_CAPABILITY = -32021;

/**
 * A stateful server turned the call away until its user has been to a page (-32042, 2025-11-25 client/elicitation
 * §URL Elicitation Required Error). 2026-07-28 has no such error: its clients get the pages as questions, and call
 * again. All other outcomes are handed back as they are.
 */
export function withPages(outcome: Outcome, exchange: ClientExchange, endpoint: Endpoint, lot: ParkingLot): Outcome {
  if (outcome.kind === 'failure' || !isPageRequired(outcome.message)) return outcome;
  const { message } = outcome;
  const { bytes, bodyStart, bodyEnd } = message;
  const list = fieldAt(bytes, bodyStart, bodyEnd, ['data', 'elicitations']);
  const pages = list === null ? [] : [...elements(bytes, list.start, list.end)];
  const broken = pages.length === 0 || pages.some((page) => bytes[page.start] !== 0x7b);
  if (broken || !takesInput(exchange.request.method)) {
    return failure(new GatewayError('UPSTREAM_PROTOCOL', 'the server wants its user on a page, and names none'));
  }
  for (const page of pages) {
    const missing = undeclared(exchange.client.capabilities, METHOD, bytes, page);
    if (missing === null) continue;
    const text = `the server needs ${METHOD} of the client, which did not declare ${missing}`;
    return answer(errorAnswer('0', MISSING_CAPABILITY, text, `{"requiredCapabilities":${missing}}`, 'stateless'));
  }
  try {
    return answer(lot.askingAgain(exchange, endpoint, questions(bytes, pages)));
  } catch (cause) {
    if (cause instanceof GatewayError) return failure(cause);
    throw cause;
  }
}

function isPageRequired({ kind, era, bytes, bodyStart, bodyEnd }: Message): boolean {
  if (kind !== 'error' || era !== 'stateful') return false;
  const code = field(bytes, bodyStart, bodyEnd, 'code');
  return code !== null && bytes.toString('latin1', code.start, code.end) === '-32042';
}

function questions(bytes: Buffer, pages: readonly Range[]): Buffer {
  const parts: Buffer[] = [];
  pages.forEach((page, i) => {
    const head = `${i === 0 ? '{' : ','}"ask${i + 1}":{"method":"${METHOD}","params":`;
    parts.push(Buffer.from(head), withoutId(bytes, page), Buffer.from('}'));
  });
  parts.push(Buffer.from('}'));
  return Buffer.concat(parts);
}
