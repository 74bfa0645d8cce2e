import type { Message } from '../../model/message.ts';
import { editBody, metaChange } from '../edit-object.ts';
import { fieldAt, stringValue } from '../fields.ts';
import { RELATED_TASK_KEY } from '../meta-keys.ts';

/** Ties what is said about a task of 2025-11-25 to it (utilities/tasks §Associating Task-Related Messages). */
const PATH = ['_meta', RELATED_TASK_KEY, 'taskId'];

/** The task that the message belongs to; null for none. */
export function relatedTask(message: Message): string | null {
  const { bytes, bodyStart, bodyEnd } = message;
  if (bodyStart < 0 || !bytes.includes('related-task')) return null;
  return stringValue(bytes, fieldAt(bytes, bodyStart, bodyEnd, PATH));
}

/** The message as one that belongs to this task; to none where the id is null. */
export function withRelatedTask(message: Message, taskId: string | null): Message {
  const { bytes, bodyStart: start, bodyEnd: end } = message;
  if (start < 0 || bytes[start] !== 0x7b) return message;
  const json = taskId === null ? null : JSON.stringify({ taskId });
  const meta = metaChange(bytes, { start, end }, [[RELATED_TASK_KEY, json]]);
  if (meta === null) return message;
  return editBody(message, [meta]);
}
