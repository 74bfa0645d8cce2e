import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { Era, Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { Capability, ServerCatalog } from '../../model/server-catalog.ts';
import { errorCode } from '../../protocol/body.ts';
import { editMembers, elementsChange, spliceMessage } from '../../protocol/splice.ts';
import {
  declaresTasks,
  declaresTasksExtension,
  missesTasks,
  taskSupport,
  toolWithTasks,
} from '../../protocol/tasks.ts';
import { isResult } from '../own-results.ts';
import { asksForTask } from './task-ids.ts';

const OFFERS = new WeakMap<ServerCatalog, boolean>();

/** Whether the server answers tool calls with tasks, in the words of its era; read once per catalogue. */
export function offersTasks(catalog: ServerCatalog): boolean {
  let offers = OFFERS.get(catalog);
  if (offers === undefined) OFFERS.set(catalog, (offers = declaresTasks(catalog.handshake)));
  return offers;
}

/** Whether the client would take a task for an answer. */
export function mayBeTask({ request, client }: Exchange): boolean {
  return request.era === 'stateful' ? asksForTask(request) : declaresTasksExtension(client.capabilities);
}

/** Whether a call was refused in the words for a tool that makes tasks only, by a server of either era. */
export function mayMissTask(outcome: Outcome): boolean {
  if (outcome.kind === 'failure' || outcome.message.kind !== 'error') return false;
  return missesTasks(outcome.message) || isMethodNotFound(outcome.message);
}

/**
 * Whether it was refused for want of a task, so that nothing ran and the call can be made anew as one. In 2025-11-25 the
 * words are those of any method that there is not, which a tool that ran may answer too: the tool's definition has to say
 * it. In 2026-07-28 they say it themselves, and to a client that decides for itself whether it takes tasks.
 */
export function missedTask(outcome: Outcome, client: Era, known: ServerCatalog, tool: Capability | null): boolean {
  if (outcome.kind === 'failure' || outcome.message.kind !== 'error' || !offersTasks(known)) return false;
  if (known.handshake.era === 'stateless') return client === 'stateful' && missesTasks(outcome.message);
  return isMethodNotFound(outcome.message) && tool !== null && taskSupport(tool.bytes) === 'required';
}

/** How a server of 2025-11-25 says that a tool is to be called as a task (tasks §Tool-Level Negotiation). */
function isMethodNotFound(error: Message): boolean {
  return errorCode(error) === CATALOGUE.METHOD_NOT_FOUND.rpc;
}

/**
 * A stateless server's own `tools/list` result as a stateful client is to see it: each tool may be called as a task. The
 * rest of the translation is the edge's.
 */
export function withTaskSupport(outcome: Outcome): Outcome {
  if (!isResult(outcome) || outcome.message.era === 'stateful') return outcome;
  const { message } = outcome;
  const body = { start: message.bodyStart, end: message.bodyEnd };
  const tools = elementsChange(message.bytes, body, 'tools', toolWithTasks);
  return tools === null ? outcome : answer(spliceMessage(message, editMembers(message.bytes, body, [tools])));
}
