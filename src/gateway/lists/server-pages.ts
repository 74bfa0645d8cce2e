import { parseObject } from '../../catalog/catalog-member.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { bodyField } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import { elements, field, stringValue } from '../../protocol/fields.ts';
import { HEADER_ANNOTATION, scanHeaderParams } from '../../protocol/headers.ts';
import type { ListMethod } from '../../protocol/methods.ts';
import { editMembers, spliceMessage } from '../../protocol/splice.ts';
import { isResult } from '../own-results.ts';
import { cursorParam } from '../params.ts';

/** Pages are answered again and again; each is made a message once. */
const MESSAGES = new WeakMap<Buffer, Message>();

/** The page of a server's own list that the request's cursor names, from what is known of the server. */
export function knownPage(catalog: ServerCatalog, list: ListMethod, request: Message): Outcome {
  const cursor = cursorParam(request);
  if (cursor instanceof GatewayError) return failure(cursor);
  const { pages } = catalog.lists[list.kind];
  const { era, capabilities } = catalog.handshake;
  if (pages.length === 0) {
    if (parseObject(capabilities)?.[list.capability] === undefined) {
      return failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${list.method}`));
    }
    return answer(result('0', `{"${list.resultKey}":[]}`, 'stateful'));
  }
  const page = cursor === null ? pages[0]! : pages.find((_, i) => i > 0 && cursorAfter(pages[i - 1]!) === cursor);
  if (page === undefined)
    return failure(new GatewayError('INVALID_PARAMS', 'params.cursor is not a cursor of this list'));
  let message = MESSAGES.get(page);
  if (message === undefined) {
    message = result('0', page, era);
    // What is shown while the server cannot be asked is stale at once (C7).
    if (era === 'stateless')
      message = spliceMessage(message, editMembers(message.bytes, bodyOf(message), [['ttlMs', '0']]));
    MESSAGES.set(page, message);
  }
  return answer(message);
}

/** A `tools/list` result with these tools only; anything else as it is. */
export function filterTools(outcome: Outcome, lists: (tool: string) => boolean): Outcome {
  return onlyTools(outcome, (name) => name !== null && lists(name));
}

/**
 * A `tools/list` result without the tools whose `x-mcp-header` is invalid: a client of Streamable HTTP, which the gateway
 * is to that server, must not use those (2026-07-28 streamable-http §Schema Extension, H6).
 */
export function withoutMisdeclared(outcome: Outcome): Outcome {
  if (outcome.kind !== 'answer' || !outcome.message.bytes.includes(HEADER_ANNOTATION)) return outcome;
  return onlyTools(outcome, (_, tool) => scanHeaderParams(tool).ok);
}

function onlyTools(outcome: Outcome, keeps: (name: string | null, tool: Buffer) => boolean): Outcome {
  if (!isResult(outcome)) return outcome;
  const { message } = outcome;
  const { bytes } = message;
  const tools = bodyField(message, 'tools');
  if (tools === null || bytes[tools.start] !== 0x5b) return outcome;
  const kept: string[] = [];
  let dropped = false;
  for (const { start, end } of elements(bytes, tools.start, tools.end)) {
    const name = stringValue(bytes, field(bytes, start, end, 'name'));
    if (keeps(name, bytes.subarray(start, end))) kept.push(bytes.toString('utf8', start, end));
    else dropped = true;
  }
  if (!dropped) return outcome;
  return answer(spliceMessage(message, [{ ...tools, insert: `[${kept.join(',')}]` }]));
}

function cursorAfter(page: Buffer): string | null {
  return stringValue(page, field(page, 0, page.length, 'nextCursor'));
}

function bodyOf(message: Message): { start: number; end: number } {
  return { start: message.bodyStart, end: message.bodyEnd };
}
