import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal, type TaskStatus } from '../../model/task-status.ts';
import { bodyField, withRelatedTask } from '../../protocol/body.ts';
import { errorAnswer, errorOf, result } from '../../protocol/compose.ts';
import { field, type Range, text } from '../../protocol/fields.ts';
import { SERVER_INFO_KEY } from '../../protocol/meta-keys.ts';
import { type Change, editObject, metaChange, validMembers } from '../../protocol/splice.ts';
import { resultToStateful } from '../../protocol/stateful/to-stateful.ts';
import { resultType } from '../../protocol/stateless/to-stateless.ts';
import {
  describedTask,
  REQUIRES_TASKS,
  readTask,
  statefulTask,
  statelessTask,
  TASKS_EXTENSION,
  type TaskState,
} from '../../protocol/tasks.ts';
import { isResult } from '../own-results.ts';
import type { TaskUpdate } from './task-table.ts';

/** The longest answer that is kept. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
/** Of a longer description, only the members that the protocol names are kept. */
const MAX_DESCRIPTION_BYTES = 16 * 1024;

export interface TaskReport {
  readonly state: TaskState;
  readonly update: TaskUpdate;
}

/** The task with which a `tools/call` was answered; null for an ordinary answer. */
export function createdTask(message: Message): TaskReport | null {
  if (message.kind !== 'result') return null;
  const { bytes, era } = message;
  if (era === 'stateless') {
    return resultType(message) === 'task' ? parseTaskReport(message) : null;
  }
  const task = bodyField(message, 'task');
  return task === null ? null : readTaskReport(bytes, task, era);
}

/** The same for an outcome. */
export function createdIn(outcome: Outcome): TaskReport | null {
  return outcome.kind === 'answer' ? createdTask(outcome.message) : null;
}

/** The task that the outcome of a request about a task describes; null for none. */
export function taskReportIn(outcome: Outcome): TaskReport | null {
  return outcome.kind === 'answer' ? parseTaskReport(outcome.message) : null;
}

/** The task that an answer or a notification describes; null for what describes none. */
export function parseTaskReport(message: Message): TaskReport | null {
  if (message.bodyStart < 0 || message.kind === 'error') return null;
  return readTaskReport(message.bytes, { start: message.bodyStart, end: message.bodyEnd }, message.era);
}

/** The update from an answer to `tasks/result` of a stateful server: the task has ended with this result or error. */
export function endedBy(record: TaskRecord, message: Message): TaskUpdate {
  const kind = message.kind === 'error' ? 'error' : 'result';
  if (isTerminal(record.status)) return { answer: kept(kind, message.era, message.body) };
  return { status: kind === 'error' ? 'failed' : 'completed', answer: kept(kind, message.era, message.body) };
}

/** The answer in the form that is stored; an answer that is too long becomes an error that says so. */
export function kept(kind: 'result' | 'error', era: Era, body: Buffer): NonNullable<TaskRecord['answer']> {
  // A copy, because it outlives the buffer that it arrived in.
  if (body.length <= MAX_ANSWER_BYTES) return { kind, era, body: Buffer.from(body) };
  const text = `the answer of the task is longer than ${MAX_ANSWER_BYTES} bytes and was not kept`;
  return { kind: 'error', era, body: Buffer.from(errorAnswer('0', CATALOGUE.TOO_LARGE.rpc, text, null, era).body) };
}

function readTaskReport(bytes: Buffer, task: Range, era: Era): TaskReport | null {
  const state = readTask(bytes, task);
  if (state === null) return null;
  const { status, ttlMs, pollIntervalMs } = state;
  const description = sound(describedTask(bytes, task));
  const answer = era === 'stateless' ? inlineAnswer(bytes, task, state) : null;
  return { state, update: { status, ttlMs, pollIntervalMs, description, ...(answer === null ? {} : { answer }) } };
}

function inlineAnswer(bytes: Buffer, task: Range, { status }: TaskState): TaskRecord['answer'] {
  if (status !== 'completed' && status !== 'failed') return null;
  const kind = status === 'completed' ? 'result' : 'error';
  const body = field(bytes, task.start, task.end, kind);
  if (body === null || bytes[body.start] !== 0x7b) return null;
  return kept(kind, 'stateless', bytes.subarray(body.start, body.end));
}

/** Lists join descriptions of many tasks, so each is valid and short. */
function sound(described: Buffer): Buffer {
  const description = validMembers(described);
  if (description.length <= MAX_DESCRIPTION_BYTES) return description;
  const named = ['taskId', 'status', 'createdAt', 'lastUpdatedAt', 'ttl', 'pollInterval'].flatMap((key) => {
    const value = field(description, 0, description.length, key);
    if (value === null || value.end - value.start > 2_048) return [];
    return [`"${key}":${description.toString('utf8', value.start, value.end)}`];
  });
  return Buffer.from(`{${named.join(',')}}`);
}

/** Whether the end and the answer of the task are known, so that its server need not be asked. */
export function isSettled(record: TaskRecord): boolean {
  return record.status === 'cancelled' || (isTerminal(record.status) && record.answer !== null);
}

/** Whether the rest of the client's view comes on the server's `tasks/result` stream. */
export function awaitsStream(record: TaskRecord): boolean {
  return record.status === 'input_required' || (isTerminal(record.status) && !isSettled(record));
}

/**
 * The status in an era: a tool's own error is a failed task in 2025-11-25, and a completed one in 2026-07-28, which uses
 * `failed` for JSON-RPC errors.
 */
function statusIn(era: Era, { status, answer: kept }: TaskRecord): TaskStatus {
  if (kept === null || !isTerminal(status) || status === 'cancelled') return status;
  if (kept.kind === 'error') return 'failed';
  return era === 'stateful' && isToolError(kept.body) ? 'failed' : 'completed';
}

/** The task as a stateful client sees it: the result of `tasks/get` and `tasks/cancel`, and the params of its status. */
export function statefulView(record: TaskRecord, exposed: string): Buffer {
  return statefulTask(record.description, exposed, statusIn('stateful', record));
}

/**
 * The same for a stateless client, with the answer. `questions`: the JSON object `inputRequests`. A task waits for input only
 * if it has some, and has ended only if it has the answer.
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

/** The answer of the call for a stateful client; `related`: the task's id there, null for none. */
export function finalOutcome(record: TaskRecord, related: string | null): Outcome {
  const { answer: kept } = record;
  if (kept === null) {
    const text = record.status === 'cancelled' ? 'the task was cancelled' : 'the answer of the task was not kept';
    return failure(new GatewayError('CANCELLED', text, { server: record.server }));
  }
  if (kept.kind === 'error') return answer(errorOf('0', kept.body, kept.era));
  return answer(withRelatedTask(stateful(keptMessage(kept), record.wraps), related));
}

/** The answer for clients without tasks, in the server's era. */
export function plainOutcome(outcome: Outcome): Outcome {
  if (!isResult(outcome)) return outcome;
  return answer(withRelatedTask(outcome.message, null));
}

/** The error for a request about tasks if the client did not declare the extension. */
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

/** `_meta` of a server's answer without the members of its era; null for none. */
export function ownMeta({ bytes, bodyStart: start, bodyEnd: end }: Message): Buffer | null {
  const meta = field(bytes, start, end, '_meta');
  if (meta === null || bytes[meta.start] !== 0x7b) return null;
  const change: Change | null = metaChange(bytes, { start, end }, [[SERVER_INFO_KEY, null]]);
  if (change === null) return bytes.subarray(meta.start, meta.end);
  return change[1] === null ? null : Buffer.from(change[1]);
}

/** A view of a task with the `_meta` of the server's answer. */
export function withMeta(view: Buffer, message: Message): Buffer {
  const meta = ownMeta(message);
  return meta === null ? view : editObject(view, { start: 0, end: view.length }, [['_meta', meta]]);
}
