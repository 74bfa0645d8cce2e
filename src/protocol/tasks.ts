import { CATALOGUE } from '../model/error-catalogue.ts';
import type { Era, Message } from '../model/message.ts';
import type { TaskStatus } from '../model/task-status.ts';
import { errorCode } from './body.ts';
import { field, fieldAt, fullRange, isObject, type Range, stringValue, text } from './fields.ts';
import { CLIENT_CAPABILITIES_KEY } from './meta-keys.ts';
import { type Change, editObject, spliceMessage } from './splice.ts';

const STATUSES: readonly string[] = ['working', 'input_required', 'completed', 'failed', 'cancelled'];

/** What the gateway reads of a task, in either era's vocabulary. */
export interface TaskState {
  readonly taskId: string;
  readonly status: TaskStatus;
  /** Milliseconds from its creation; null for no limit. */
  readonly ttlMs: number | null;
  /** Milliseconds that its server wants between two polls; null if it named none. */
  readonly pollIntervalMs: number | null;
}

/** Members of an answer about a task that do not belong to the task's description. */
const AROUND = ['resultType', 'result', 'error', 'inputRequests', '_meta'];

/** Reads a task of either era; null if it is none. */
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

/** The task's description as 2025-11-25 writes it: without result, error, input requests and `_meta`. */
export function describedTask(bytes: Buffer, task: Range): Buffer {
  const changes = AROUND.map((key): Change => [key, null]);
  rename(bytes, task, 'ttlMs', 'ttl', changes);
  rename(bytes, task, 'pollIntervalMs', 'pollInterval', changes);
  // A copy: it outlives the chunk that it arrived in.
  return Buffer.from(editObject(bytes, task, changes));
}

/** A stored description as a stateful client sees it. */
export function statefulTask(task: Buffer, taskId: string, status: TaskStatus): Buffer {
  const changes = idAndStatus(taskId, status);
  if (field(task, 0, task.length, 'ttl') === null) changes.push(['ttl', 'null']);
  return editObject(task, fullRange(task), changes);
}

/** As `statefulTask`, for a stateless client. `more`: further members of the answer, such as type, result and questions. */
export function statelessTask(task: Buffer, taskId: string, status: TaskStatus, more: readonly Change[]): Buffer {
  const changes = idAndStatus(taskId, status);
  rename(task, fullRange(task), 'ttl', 'ttlMs', changes);
  rename(task, fullRange(task), 'pollInterval', 'pollIntervalMs', changes);
  if (field(task, 0, task.length, 'ttl') === null) changes.push(['ttlMs', 'null']);
  return editObject(task, fullRange(task), [...changes, ...more]);
}

function idAndStatus(taskId: string, status: TaskStatus): Change[] {
  const changed = { taskId: JSON.stringify(taskId), status: `"${status}"` };
  return Object.entries(changed);
}

function rename(bytes: Buffer, object: Range, from: string, to: string, changes: Change[]): void {
  const value = field(bytes, object.start, object.end, from);
  if (value !== null) changes.push([from, null], [to, text(bytes, value)]);
}

/** A duration as a server wrote it; null if it is absent or invalid. */
function millis(bytes: Buffer, object: Range, key: string): number | null {
  const value = field(bytes, object.start, object.end, key);
  const number = value === null ? Number.NaN : Number(text(bytes, value));
  return Number.isFinite(number) && number >= 0 && text(bytes, value!) !== 'null' ? number : null;
}

/** A server declares tasks with `tasks` (2025-11-25), or both sides declare an extension (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/** What a stateful client sees of a server whose tasks the gateway stores: the gateway lists and cancels them. */
export const STATEFUL_TASKS = '{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}';

export const REQUIRES_TASKS = `{"requiredCapabilities":{"extensions":{"${TASKS_EXTENSION}":{}}}}`;

export function declaresTasksExtension(capabilities: string): boolean {
  return declares(capabilities, ['extensions', TASKS_EXTENSION]);
}

function declaresToolTasks(capabilities: string): boolean {
  return declares(capabilities, ['tasks', 'requests', 'tools', 'call']);
}

function declares(capabilities: string, path: readonly string[]): boolean {
  if (!capabilities.includes('tasks')) return false;
  const bytes = Buffer.from(capabilities);
  return isObject(bytes, fieldAt(bytes, 0, bytes.length, path));
}

/** Whether a server's tools can answer with a task, by the declaration of its era. */
export function declaresTasks({ era, capabilities }: { readonly era: Era; readonly capabilities: string }): boolean {
  return era === 'stateful' ? declaresToolTasks(capabilities) : declaresTasksExtension(capabilities);
}

/** A server's own capabilities in the vocabulary of a client of the other era. */
export function tasksToStateful(capabilities: string): string {
  return declaresTasksExtension(capabilities)
    ? edited(capabilities, (bytes) => [...withoutExtension(bytes), ['tasks', STATEFUL_TASKS]])
    : capabilities;
}

export function tasksToStateless(capabilities: string): string {
  const declared = declaresToolTasks(capabilities);
  return edited(capabilities, (bytes) => [['tasks', null], ...(declared ? withExtension(bytes) : [])]);
}

/** A client's capabilities for stateful servers: without its own tasks and without the extension (SEP-2663). */
export function withoutTasks(capabilities: string): string {
  if (!capabilities.includes('tasks')) return capabilities;
  return edited(capabilities, (bytes) => [['tasks', null], ...withoutExtension(bytes)]);
}

export function withTasksExtension(capabilities: string): string {
  return declaresTasksExtension(capabilities) ? capabilities : edited(capabilities, withExtension);
}

/** The stateless request with a declaration that its client accepts tasks. */
export function declaringTasks(request: Message): Message {
  const { bytes, bodyStart, bodyEnd } = request;
  const declared = fieldAt(bytes, bodyStart, bodyEnd, ['_meta', CLIENT_CAPABILITIES_KEY]);
  if (!isObject(bytes, declared)) return request;
  const own = bytes.subarray(declared.start, declared.end);
  const insert = editObject(own, fullRange(own), withExtension(own));
  return spliceMessage(request, [{ ...declared, insert }]);
}

/** Whether the error says that the server requires a client that accepts tasks. */
export function isTasksRequiredError(error: Message): boolean {
  if (error.kind !== 'error' || errorCode(error) !== CATALOGUE.MISSING_CAPABILITY.rpc) return false;
  const { bytes, bodyStart, bodyEnd } = error;
  const path = ['data', 'requiredCapabilities', 'extensions', TASKS_EXTENSION];
  return fieldAt(bytes, bodyStart, bodyEnd, path) !== null;
}

/** Whether a tool of a stateful server may be called as a task: `execution.taskSupport`. */
export function taskSupport(tool: Buffer): 'required' | 'optional' | 'forbidden' {
  if (!tool.includes('taskSupport')) return 'forbidden';
  const value = stringValue(tool, fieldAt(tool, 0, tool.length, ['execution', 'taskSupport']));
  return value === 'required' || value === 'optional' ? value : 'forbidden';
}

/** A tool of a stateless server with the extension, for stateful clients: they may request a task. */
export function toolWithTasks(tool: Buffer): Buffer {
  return editObject(tool, fullRange(tool), [['execution', '{"taskSupport":"optional"}']]);
}

function withExtension(bytes: Buffer): Change[] {
  const extensions = field(bytes, 0, bytes.length, 'extensions');
  if (!isObject(bytes, extensions)) return [['extensions', `{"${TASKS_EXTENSION}":{}}`]];
  if (field(bytes, extensions.start, extensions.end, TASKS_EXTENSION) !== null) return [];
  return [['extensions', editObject(bytes, extensions, [[TASKS_EXTENSION, '{}']])]];
}

function withoutExtension(bytes: Buffer): Change[] {
  const extensions = field(bytes, 0, bytes.length, 'extensions');
  if (extensions === null || field(bytes, extensions.start, extensions.end, TASKS_EXTENSION) === null) return [];
  return [['extensions', editObject(bytes, extensions, [[TASKS_EXTENSION, null]])]];
}

function edited(json: string, changes: (bytes: Buffer) => readonly Change[]): string {
  const bytes = Buffer.from(json);
  return editObject(bytes, fullRange(bytes), changes(bytes)).toString();
}
