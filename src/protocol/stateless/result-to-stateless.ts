import type { Message } from '../../model/message.ts';
import { type Change, editBody, elementsChange, metaChange } from '../edit-object.ts';
import { SERVER_INFO_KEY } from '../meta-keys.ts';
import { isCacheable } from '../methods.ts';
import { spliceMessage } from '../splice.ts';
import { toolToStateless } from './tool-to-stateless.ts';

/**
 * A stateful server's result for a stateless client: says that it is complete, that it may not be cached (its server
 * gave no hint), and who the server is. `serverInfoJson` is the server's own `serverInfo`, null to leave it out; `own` as in
 * `spliceMessage`.
 */
export function resultToStateless(
  result: Message,
  method: string,
  serverInfoJson: string | null,
  own = false,
): Message {
  if (result.era === 'stateless') return result;
  const { bytes, bodyStart: start, bodyEnd: end } = result;
  if (bytes[start] !== 0x7b) return spliceMessage(result, [], 'stateless');
  // These members mean nothing in the stateful revisions: what is there by chance must not be taken for a hint.
  const changes: Change[] = [['resultType', '"complete"']];
  if (isCacheable(method)) changes.push(['ttlMs', '0'], ['cacheScope', '"private"']);
  const meta = serverInfoJson === null ? null : metaChange(bytes, { start, end }, [[SERVER_INFO_KEY, serverInfoJson]]);
  if (meta !== null) changes.push(meta);
  const tools = method === 'tools/list' ? elementsChange(bytes, { start, end }, 'tools', toolToStateless) : null;
  if (tools !== null) changes.push(tools);
  return editBody(result, changes, 'stateless', own);
}
