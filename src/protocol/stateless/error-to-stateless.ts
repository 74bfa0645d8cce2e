import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Message } from '../../model/message.ts';
import { bodyField, errorCode } from '../body.ts';
import { field } from '../fields.ts';
import { editMembers, spliceMessage } from '../splice.ts';

/**
 * A stateful server's error for a stateless client: an unknown resource (-32002) is an invalid parameter there, -32602
 * with `data.uri` (2026-07-28 server/resources §Error Handling). `uri` is what was asked for, where the server did
 * not repeat it. All other errors pass as they are.
 */
export function errorToStateless(error: Message, method: string, uri: string | null = null): Message {
  if (error.era === 'stateless') return error;
  const code = bodyField(error, 'code');
  const ofResource = method === 'resources/read' || method === 'resources/subscribe';
  if (!ofResource || code === null || errorCode(error) !== CATALOGUE.RESOURCE_NOT_FOUND.rpc) {
    return spliceMessage(error, [], 'stateless');
  }
  const edits = [
    { start: code.start, end: code.end, insert: String(CATALOGUE.INVALID_PARAMS.rpc) },
    ...uriEdits(error, uri),
  ];
  return spliceMessage(error, edits, 'stateless');
}

function uriEdits(error: Message, uri: string | null): ReturnType<typeof editMembers> {
  if (uri === null) return [];
  const { bytes, bodyStart, bodyEnd } = error;
  const data = bodyField(error, 'data');
  if (data === null) {
    return editMembers(bytes, { start: bodyStart, end: bodyEnd }, [['data', JSON.stringify({ uri })]]);
  }
  // Data of another shape is the server's to keep.
  if (bytes[data.start] !== 0x7b || field(bytes, data.start, data.end, 'uri') !== null) return [];
  return editMembers(bytes, data, [['uri', JSON.stringify(uri)]]);
}
