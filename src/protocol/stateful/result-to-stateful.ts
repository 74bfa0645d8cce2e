import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failureAnswer } from '../compose.ts';
import { type Change, editBody, elementsChange, metaChange } from '../edit-object.ts';
import { elements, field, type Range, text } from '../fields.ts';
import { SERVER_INFO_KEY } from '../meta-keys.ts';
import { isCacheable } from '../methods.ts';
import { spliceMessage } from '../splice.ts';
import { resultType } from '../stateless/result-type.ts';
import { toolToStateful } from './tool-to-stateful.ts';

/**
 * A stateless server's result for a stateful client: without `resultType`, cache hints and the server's name in
 * `_meta`. `structuredContent` that is no object is wrapped as `{"result":…}`, because these revisions know objects
 * only; `wrapsOutput` says that the tool's schema was wrapped (`wrapsOutput(tool)`), so that objects are wrapped too.
 *
 * Other types than `complete` have no counterpart. `input_required` is for the caller to fulfil before; what is left
 * is answered as a failure of the server. `own` as in `spliceMessage`.
 */
export function resultToStateful(result: Message, method: string, wrapsOutput = false, own = false): Message {
  if (result.era === 'stateful') return result;
  const type = resultType(result);
  if (type !== 'complete') {
    const words = `the server answered with a result of the unknown type ${JSON.stringify(type.slice(0, 64))}`;
    return failureAnswer(result.id, new GatewayError('UPSTREAM_PROTOCOL', words), 'stateful');
  }
  const { bytes, bodyStart: start, bodyEnd: end } = result;
  if (bytes[start] !== 0x7b) return spliceMessage(result, [], 'stateful');
  const changes: Change[] = [['resultType', null]];
  if (isCacheable(method)) changes.push(['ttlMs', null], ['cacheScope', null]);
  const meta = metaChange(bytes, { start, end }, [[SERVER_INFO_KEY, null]]);
  if (meta !== null) changes.push(meta);
  if (method === 'tools/call') changes.push(...structuredContent(bytes, { start, end }, wrapsOutput));
  const tools = method === 'tools/list' ? elementsChange(bytes, { start, end }, 'tools', toolToStateful) : null;
  if (tools !== null) changes.push(tools);
  return editBody(result, changes, 'stateful', own);
}

function structuredContent(bytes: Buffer, result: Range, wrapsOutput: boolean): Change[] {
  const value = field(bytes, result.start, result.end, 'structuredContent');
  if (value === null || (bytes[value.start] === 0x7b && !wrapsOutput)) return [];
  const json = bytes.subarray(value.start, value.end);
  const changes: Change[] = [['structuredContent', Buffer.concat([Buffer.from('{"result":'), json, Buffer.from('}')])]];
  const content = field(bytes, result.start, result.end, 'content');
  const empty = content === null || elements(bytes, content.start, content.end).next().done === true;
  if (empty) changes.push(['content', `[{"type":"text","text":${JSON.stringify(text(bytes, value))}}]`]);
  return changes;
}
