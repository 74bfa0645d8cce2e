import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Message } from '../../model/message.ts';
import { bodyField, errorCode } from '../body.ts';
import { fieldAt } from '../fields.ts';
import { spliceMessage } from '../splice.ts';

/**
 * A stateless server's error for a stateful client: an unknown resource (-32602 with `data.uri`) has its own code
 * -32002 there (2025-11-25 server/resources §Error Handling). All other errors pass as they are.
 */
export function errorToStateful(error: Message, method: string): Message {
  if (error.era === 'stateful') return error;
  const { bytes, bodyStart, bodyEnd } = error;
  const code = bodyField(error, 'code');
  const unknownResource =
    (method === 'resources/read' || method === 'resources/subscribe') &&
    code !== null &&
    errorCode(error) === CATALOGUE.INVALID_PARAMS.rpc &&
    fieldAt(bytes, bodyStart, bodyEnd, ['data', 'uri']) !== null;
  const edits = unknownResource
    ? [{ start: code.start, end: code.end, insert: String(CATALOGUE.RESOURCE_NOT_FOUND.rpc) }]
    : [];
  return spliceMessage(error, edits, 'stateful');
}
