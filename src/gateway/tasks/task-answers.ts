import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal, type TaskStatus } from '../../model/task-status.ts';
import { withRelatedTask } from '../../protocol/body.ts';
import { errorAnswer, errorOf, result } from '../../protocol/compose.ts';
import { field, text } from '../../protocol/fields.ts';
import { SERVER_INFO_KEY } from '../../protocol/meta-keys.ts';
import { type Change, editObject, metaChange } from '../../protocol/splice.ts';
import { resultToStateful } from '../../protocol/stateful/to-stateful.ts';
import { REQUIRES_TASKS, statefulTask, statelessTask, TASKS_EXTENSION } from '../../protocol/tasks.ts';
import { isResult } from '../own-results.ts';

/** Everything that is to be known of the task is known here: its server need not be asked any more. */
export function isSettled(record: TaskRecord): boolean {
  return record.status === 'cancelled' || (isTerminal(record.status) && record.answer !== null);
}

/** Whether what the client is to see of the task comes on its server's `tasks/result` stream. */
export function awaitsStream(record: TaskRecord): boolean {
  return record.status === 'input_required' || (isTerminal(record.status) && !isSettled(record));
}

/**
 * The status in the words of an era: 2025-11-25 calls a tool's own error a failed task, 2026-07-28 a completed one and
 * keeps `failed` for JSON-RPC errors.
 */
function statusIn(era: Era, { status, answer: kept }: TaskRecord): TaskStatus {
  if (kept === null || !isTerminal(status) || status === 'cancelled') return status;
  if (kept.kind === 'error') return 'failed';
  return era === 'stateful' && isToolError(kept.body) ? 'failed' : 'completed';
}

/** The task as a stateful client sees it: what `tasks/get` and `tasks/cancel` answer, and `params` of its status. */
export function statefulView(record: TaskRecord, exposed: string): Buffer {
  return statefulTask(record.description, exposed, statusIn('stateful', record));
}

/**
 * The same for a stateless client, with how it ended. `questions` is the object of what its server wants to know, in
 * JSON. A task is shown as waiting for input only with its questions, and as ended only with its answer.
 */
export function statelessView(record: TaskRecord, exposed: string, questions: Buffer | null, type: string): Buffer {
  const more: Change[] = [['resultType', type === '' ? null : `"${type}"`]];
  let status = statusIn('stateless', record);
  if (questions !== null && !isTerminal(status)) {
    status = 'input_required';
    more.push(['inputRequests', questions]);
  } else if (status === 'input_required') status = 'working';
  if (status === 'completed' || status === 'failed') {
    if (record.answer === null) status = 'working';
    else more.push([record.answer.kind, keptBody(record.answer)]);
  }
  return statelessTask(record.description, exposed, status, more);
}

/** The answer that the call would have had, for a stateful client; `related` is the task's id there, null for none. */
export function finalOutcome(record: TaskRecord, related: string | null): Outcome {
  const { answer: kept } = record;
  if (kept === null) {
    const text = record.status === 'cancelled' ? 'the task was cancelled' : 'the answer of the task was not kept';
    return failure(new GatewayError('CANCELLED', text, { server: record.server }));
  }
  if (kept.kind === 'error') return answer(errorOf('0', kept.body, kept.era));
  return answer(withRelatedTask(stateful(keptMessage(kept), record.wraps), related));
}

/** The answer for clients that know no tasks, in the words that the server used. */
export function plainOutcome(outcome: Outcome): Outcome {
  if (!isResult(outcome)) return outcome;
  return answer(withRelatedTask(outcome.message, null));
}

/** The request speaks of tasks, and its client did not say that it knows any. */
export function missingExtension(): Outcome {
  const text = `the client did not declare ${TASKS_EXTENSION}`;
  return answer(errorAnswer('0', CATALOGUE.MISSING_CAPABILITY.rpc, text, REQUIRES_TASKS, 'stateless'));
}

function stateful(message: Message, wraps: boolean): Message {
  return message.era === 'stateful' ? message : resultToStateful(message, 'tools/call', wraps);
}

function keptMessage({ era, body }: NonNullable<TaskRecord['answer']>): Message {
  return result('0', body, era);
}

function keptBody(kept: NonNullable<TaskRecord['answer']>): Buffer {
  return kept.kind === 'error' ? kept.body : withRelatedTask(keptMessage(kept), null).body;
}

export function isToolError(body: Buffer): boolean {
  const flag = field(body, 0, body.length, 'isError');
  return flag !== null && text(body, flag) === 'true';
}

/** `_meta` of a server's answer without what belongs to its era; null for none. */
export function ownMeta({ bytes, bodyStart: start, bodyEnd: end }: Message): Buffer | null {
  const meta = field(bytes, start, end, '_meta');
  if (meta === null || bytes[meta.start] !== 0x7b) return null;
  const change: Change | null = metaChange(bytes, { start, end }, [[SERVER_INFO_KEY, null]]);
  if (change === null) return bytes.subarray(meta.start, meta.end);
  return change[1] === null ? null : Buffer.from(change[1]);
}

/** A view of a task with the `_meta` of the server's answer that it was made from. */
export function withMeta(view: Buffer, message: Message): Buffer {
  const meta = ownMeta(message);
  return meta === null ? view : editObject(view, { start: 0, end: view.length }, [['_meta', meta]]);
}
