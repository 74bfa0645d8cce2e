import type { TaskStatus } from '../../model/task-status.ts';
import { type Change, editObject } from '../edit-object.ts';
import { field, type Range, stringValue, text, whole } from '../fields.ts';

const STATUSES: readonly string[] = ['working', 'input_required', 'completed', 'failed', 'cancelled'];

/** What the gateway reads of a task, in whichever words it was written. */
export interface TaskState {
  readonly taskId: string;
  readonly status: TaskStatus;
  /** Milliseconds from its creation; null for no end. */
  readonly ttlMs: number | null;
  /** Milliseconds that its server wants between two polls; null where it did not say. */
  readonly pollIntervalMs: number | null;
}

/** Members of an answer about a task that are not the task's own description. */
const AROUND = ['resultType', 'result', 'error', 'inputRequests', '_meta'];

/** Reads a task of either era; null for what is none. */
export function readTask(bytes: Buffer, task: Range): TaskState | null {
  if (bytes[task.start] !== 0x7b) return null;
  const taskId = stringValue(bytes, field(bytes, task.start, task.end, 'taskId'));
  const status = stringValue(bytes, field(bytes, task.start, task.end, 'status'));
  if (taskId === null || status === null || !STATUSES.includes(status)) return null;
  return {
    taskId,
    status: status as TaskStatus,
    ttlMs: millis(bytes, task, 'ttlMs') ?? millis(bytes, task, 'ttl'),
    pollIntervalMs: millis(bytes, task, 'pollIntervalMs') ?? millis(bytes, task, 'pollInterval'),
  };
}

/** The description in the words of 2025-11-25, as kept: without result, error, input requests and `_meta`. */
export function describedTask(bytes: Buffer, task: Range): Buffer {
  const changes = AROUND.map((key): Change => [key, null]);
  rename(bytes, task, 'ttlMs', 'ttl', changes);
  rename(bytes, task, 'pollIntervalMs', 'pollInterval', changes);
  // A copy: it outlives the chunk that it came in.
  return Buffer.from(editObject(bytes, task, changes));
}

/** A kept description as a stateful client sees it. */
export function statefulTask(task: Buffer, taskId: string, status: TaskStatus): Buffer {
  const changes = idAndStatus(taskId, status);
  if (field(task, 0, task.length, 'ttl') === null) changes.push(['ttl', 'null']);
  return editObject(task, whole(task), changes);
}

/** The same for a stateless client. `more` is what the answer says beside: its type, the result, the questions. */
export function statelessTask(task: Buffer, taskId: string, status: TaskStatus, more: readonly Change[]): Buffer {
  const changes = idAndStatus(taskId, status);
  rename(task, whole(task), 'ttl', 'ttlMs', changes);
  rename(task, whole(task), 'pollInterval', 'pollIntervalMs', changes);
  if (field(task, 0, task.length, 'ttl') === null) changes.push(['ttlMs', 'null']);
  return editObject(task, whole(task), [...changes, ...more]);
}

function idAndStatus(taskId: string, status: TaskStatus): Change[] {
  const changed = { taskId: JSON.stringify(taskId), status: `"${status}"` };
  return Object.entries(changed);
}

function rename(bytes: Buffer, object: Range, from: string, to: string, changes: Change[]): void {
  const value = field(bytes, object.start, object.end, from);
  if (value !== null) changes.push([from, null], [to, text(bytes, value)]);
}

/** A duration as a server wrote it; nonsense counts as not said. */
function millis(bytes: Buffer, object: Range, key: string): number | null {
  const value = field(bytes, object.start, object.end, key);
  const number = value === null ? Number.NaN : Number(text(bytes, value));
  return Number.isFinite(number) && number >= 0 && text(bytes, value!) !== 'null' ? number : null;
}
