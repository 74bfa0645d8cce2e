import type { Message } from '../../model/message.ts';
import { field } from '../../protocol/fields.ts';

/** The HTTP status that 2026-07-28 gives to an answer (streamable-http §Protocol Version Header, §Server Validation). */
export function httpStatus(answer: Message): number {
  if (answer.kind !== 'error') return 200;
  const code = field(answer.bytes, answer.bodyStart, answer.bodyEnd, 'code');
  switch (code === null ? '' : answer.bytes.toString('latin1', code.start, code.end)) {
    case '-32601':
      return 404;
    case '-32020':
    case '-32021':
    case '-32022':
    case '-32600':
    case '-32700':
      return 400;
    default:
      return 200;
  }
}
