import type { Era, Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal } from '../../model/task-status.ts';
import { bodyField } from '../../protocol/body.ts';
import { errorAnswer } from '../../protocol/compose.ts';
import { field, type Range } from '../../protocol/fields.ts';
import { resultType } from '../../protocol/stateless/to-stateless.ts';
import { describedTask, readTask, type TaskState } from '../../protocol/tasks.ts';
import type { TaskNews } from './task-table.ts';

/** The longest answer that is kept. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
/** A description is a few lines; of a longer one only what the protocol names is kept. */
const MAX_DESCRIPTION_BYTES = 16 * 1024;
const TOO_LARGE = 53007;

export interface TaskReport {
  readonly state: TaskState;
  readonly news: TaskNews;
}

/** The task that a `tools/call` was answered with, null for an ordinary answer. */
export function createdTask(message: Message): TaskReport | null {
  if (message.kind !== 'result') return null;
  const { bytes, era } = message;
  if (era === 'stateless') {
    return resultType(message) === 'task' ? heardTask(message) : null;
  }
  const task = bodyField(message, 'task');
  return task === null ? null : heard(bytes, task, era);
}

/** The same of an outcome. */
export function createdIn(outcome: Outcome): TaskReport | null {
  return outcome.kind === 'answer' ? createdTask(outcome.message) : null;
}

/** The task that the outcome of a request about a task describes; null for none. */
export function heardIn(outcome: Outcome): TaskReport | null {
  return outcome.kind === 'answer' ? heardTask(outcome.message) : null;
}

/** The task that an answer or a notification describes; null for what describes none. */
export function heardTask(message: Message): TaskReport | null {
  if (message.bodyStart < 0 || message.kind === 'error') return null;
  return heard(message.bytes, { start: message.bodyStart, end: message.bodyEnd }, message.era);
}

/** What `tasks/result` says of a stateful server's task: it has ended, and so. */
export function endedBy(record: TaskRecord, message: Message): TaskNews {
  const kind = message.kind === 'error' ? 'error' : 'result';
  if (isTerminal(record.status)) return { answer: kept(kind, message.era, message.body) };
  return { status: kind === 'error' ? 'failed' : 'completed', answer: kept(kind, message.era, message.body) };
}

/** An answer as it is kept: one that is too long is kept as the error that says so. */
export function kept(kind: 'result' | 'error', era: Era, body: Buffer): NonNullable<TaskRecord['answer']> {
  // A copy: it outlives the chunk that it came in.
  if (body.length <= MAX_ANSWER_BYTES) return { kind, era, body: Buffer.from(body) };
  const text = `the answer of the task is longer than ${MAX_ANSWER_BYTES} bytes and was not kept`;
  return { kind: 'error', era, body: Buffer.from(errorAnswer('0', TOO_LARGE, text, null, era).body) };
}

function heard(bytes: Buffer, task: Range, era: Era): TaskReport | null {
  const state = readTask(bytes, task);
  if (state === null) return null;
  const { status, ttlMs, pollIntervalMs } = state;
  const description = bounded(describedTask(bytes, task));
  const answer = era === 'stateless' ? inlineAnswer(bytes, task, state) : null;
  return { state, news: { status, ttlMs, pollIntervalMs, description, ...(answer === null ? {} : { answer }) } };
}

function inlineAnswer(bytes: Buffer, task: Range, { status }: TaskState): TaskRecord['answer'] {
  if (status !== 'completed' && status !== 'failed') return null;
  const kind = status === 'completed' ? 'result' : 'error';
  const body = field(bytes, task.start, task.end, kind);
  if (body === null || bytes[body.start] !== 0x7b) return null;
  return kept(kind, 'stateless', bytes.subarray(body.start, body.end));
}

function bounded(description: Buffer): Buffer {
  if (description.length <= MAX_DESCRIPTION_BYTES) return description;
  const named = ['taskId', 'status', 'createdAt', 'lastUpdatedAt', 'ttl', 'pollInterval'].flatMap((key) => {
    const value = field(description, 0, description.length, key);
    if (value === null || value.end - value.start > 2_048) return [];
    return [`"${key}":${description.toString('utf8', value.start, value.end)}`];
  });
  return Buffer.from(`{${named.join(',')}}`);
}
