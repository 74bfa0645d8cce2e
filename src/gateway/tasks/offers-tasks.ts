import type { Exchange } from '../../model/exchange.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { elementsChange } from '../../protocol/edit-object.ts';
import { editMembers, spliceMessage } from '../../protocol/splice.ts';
import { declaresTasks, declaresTasksExtension, toolWithTasks } from '../../protocol/tasks/extension.ts';
import { asksForTask } from '../task-ids.ts';

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
