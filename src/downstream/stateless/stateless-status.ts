import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Message } from '../../model/message.ts';
import { errorCode } from '../../protocol/body.ts';

/** The HTTP status that 2026-07-28 gives to an answer (streamable-http §Protocol Version Header, §Server Validation). */
export function httpStatus(answer: Message): number {
  if (answer.kind !== 'error') return 200;
  switch (errorCode(answer)) {
    case CATALOGUE.METHOD_NOT_FOUND.rpc:
      return 404;
    case CATALOGUE.HEADER_MISMATCH.rpc:
    case CATALOGUE.MISSING_CAPABILITY.rpc:
    case CATALOGUE.UNSUPPORTED_VERSION.rpc:
    case CATALOGUE.INVALID_REQUEST.rpc:
    case CATALOGUE.PARSE_ERROR.rpc:
      return 400;
    default:
      return 200;
  }
}
