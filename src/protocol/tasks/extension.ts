import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Era, Message } from '../../model/message.ts';
import { errorCode } from '../body.ts';
import { type Change, editObject } from '../edit-object.ts';
import { field, fieldAt, isObject, stringValue, whole } from '../fields.ts';
import { CLIENT_CAPABILITIES_KEY } from '../meta-keys.ts';
import { spliceMessage } from '../splice.ts';

/** Tasks are declared by `tasks` of a server (2025-11-25), or by both sides as an extension (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/** What a stateful client sees of a server whose tasks the gateway keeps: the gateway lists and cancels them. */
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

/** Whether a server's tools can answer with a task, in the words of its era. */
export function declaresTasks({ era, capabilities }: { readonly era: Era; readonly capabilities: string }): boolean {
  return era === 'stateful' ? declaresToolTasks(capabilities) : declaresTasksExtension(capabilities);
}

/** A server's own capabilities in the words of a client of the other era. */
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

/** The stateless request, its client declaring that it takes tasks. */
export function declaringTasks(request: Message): Message {
  const { bytes, bodyStart, bodyEnd } = request;
  const declared = fieldAt(bytes, bodyStart, bodyEnd, ['_meta', CLIENT_CAPABILITIES_KEY]);
  if (!isObject(bytes, declared)) return request;
  const own = bytes.subarray(declared.start, declared.end);
  const insert = editObject(own, whole(own), withExtension(own));
  return spliceMessage(request, [{ ...declared, insert }]);
}

/** Whether the error is the server's word that it needs a client that takes tasks. */
export function missesTasks(error: Message): boolean {
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

/** A tool of a stateless server with the extension, as stateful clients are shown it: they may ask for a task. */
export function toolWithTasks(tool: Buffer): Buffer {
  return editObject(tool, whole(tool), [['execution', '{"taskSupport":"optional"}']]);
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
  return editObject(bytes, whole(bytes), changes(bytes)).toString();
}
