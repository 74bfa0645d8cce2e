import type { Exchange } from '../../model/exchange.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { elementsChange } from '../../protocol/edit-object.ts';
import { field, text } from '../../protocol/fields.ts';
import { editMembers, spliceMessage } from '../../protocol/splice.ts';
import { declaresTasks, declaresTasksExtension, missesTasks, toolWithTasks } from '../../protocol/tasks/extension.ts';
import { asksForTask } from '../task-ids.ts';

/** How a server of 2025-11-25 says that a tool is to be called as a task (tasks §Tool-Level Negotiation). */
const METHOD_NOT_FOUND = '-32601';
const OFFERS = new WeakMap<ServerCatalog, boolean>();

/** Whether the server answers tool calls with tasks, in the words of its era; read once per catalogue. */
export function offersTasks(catalog: ServerCatalog): boolean {
  let offers = OFFERS.get(catalog);
  if (offers === undefined) OFFERS.set(catalog, (offers = declaresTasks(catalog.hello)));
  return offers;
}

/** Whether the client would take a task for an answer. */
export function mayBeTask({ request, client }: Exchange): boolean {
  return request.era === 'stateful' ? asksForTask(request) : declaresTasksExtension(client.capabilities);
}

/** Whether a call was refused in the words for a tool that makes tasks only, by a server of either era. */
export function mayMissTask(outcome: Outcome): boolean {
  if (outcome.kind === 'failure' || outcome.message.kind !== 'error') return false;
  const { bytes, bodyStart, bodyEnd } = outcome.message;
  const code = field(bytes, bodyStart, bodyEnd, 'code');
  return missesTasks(outcome.message) || (code !== null && text(bytes, code) === METHOD_NOT_FOUND);
}

/**
 * A stateless server's own `tools/list` result as a stateful client is to see it: each tool may be called as a task. The
 * rest of the translation is the edge's.
 */
export function withTaskSupport(outcome: Outcome): Outcome {
  if (outcome.kind !== 'answer' || outcome.message.kind !== 'result' || outcome.message.era === 'stateful')
    return outcome;
  const { message } = outcome;
  const body = { start: message.bodyStart, end: message.bodyEnd };
  const tools = elementsChange(message.bytes, body, 'tools', toolWithTasks);
  return tools === null ? outcome : answer(spliceMessage(message, editMembers(message.bytes, body, [tools])));
}
