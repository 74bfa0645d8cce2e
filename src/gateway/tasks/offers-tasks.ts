import { declaredBy } from '../../catalog/catalog-member.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { Era, Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { Capability, ServerCatalog } from '../../model/server-catalog.ts';
import { errorCode } from '../../protocol/body.ts';
import { editMembers, elementsChange, spliceMessage } from '../../protocol/splice.ts';
import { declaresTasksExtension, isTasksRequiredError, taskSupport, toolWithTasks } from '../../protocol/tasks.ts';
import { isResult } from '../own-results.ts';
import { asksForTask } from './task-ids.ts';

/** Whether the server can answer tool calls with tasks, as its era declares it. */
export function offersTasks({ handshake }: ServerCatalog): boolean {
  return declaredBy(handshake).tasks;
}

/** Whether the client accepts a task as the answer. */
export function mayBeTask({ request, client }: Exchange): boolean {
  return request.era === 'stateful' ? asksForTask(request) : declaresTasksExtension(client.capabilities);
}

/** Whether a server of either era refused a call with the error for a tool that requires a task. */
export function mayMissTask(outcome: Outcome): boolean {
  if (outcome.kind === 'failure' || outcome.message.kind !== 'error') return false;
  return isTasksRequiredError(outcome.message) || isMethodNotFound(outcome.message);
}

/**
 * Whether the call was refused because it must be made as a task: then nothing ran, and it can be sent again as one. In
 * 2025-11-25 the error is that for an unknown method, which a tool that ran may return too, so the tool's definition must
 * require a task. In 2026-07-28 the error is unambiguous, and a stateless client gets it and decides itself.
 */
export function missedTask(outcome: Outcome, client: Era, known: ServerCatalog, tool: Capability | null): boolean {
  if (outcome.kind === 'failure' || outcome.message.kind !== 'error' || !offersTasks(known)) return false;
  if (known.handshake.era === 'stateless') return client === 'stateful' && isTasksRequiredError(outcome.message);
  return isMethodNotFound(outcome.message) && tool !== null && taskSupport(tool.bytes) === 'required';
}

/** Whether the error is that of a 2025-11-25 server for a tool that requires a task (tasks §Tool-Level Negotiation). */
function isMethodNotFound(error: Message): boolean {
  return errorCode(error) === CATALOGUE.METHOD_NOT_FOUND.rpc;
}

/**
 * A stateless server's own `tools/list` result for a stateful client: each tool may be called as a task. The edge does the rest
 * of the translation.
 */
export function withTaskSupport(outcome: Outcome): Outcome {
  if (!isResult(outcome) || outcome.message.era === 'stateful') return outcome;
  const { message } = outcome;
  const body = { start: message.bodyStart, end: message.bodyEnd };
  const tools = elementsChange(message.bytes, body, 'tools', toolWithTasks);
  return tools === null ? outcome : answer(spliceMessage(message, editMembers(message.bytes, body, [tools])));
}
