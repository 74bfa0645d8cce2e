/** New versions of JSON objects from their bytes: what is not changed stays as it was written. */
import type { Era, Message } from '../model/message.ts';
import { elements, field, isObject, type Range, whole } from './fields.ts';
import { type Edit, editMembers, splice, spliceMessage } from './splice.ts';

/** A member's new JSON value; null takes the member away. */
export type Change = readonly [key: string, json: string | Buffer | null];

/** The object with the changes, its other members as they were; the same bytes (a view) when nothing changes. */
export function editObject(bytes: Buffer, object: Range, changes: readonly Change[]): Buffer {
  const own = bytes.subarray(object.start, object.end);
  return splice(own, editMembers(own, whole(own), changes));
}

/** The message with the changes in its body, which is an object; `era` and `own` as in `spliceMessage`. */
export function editBody(message: Message, changes: readonly Change[], era: Era = message.era, own = false): Message {
  const { bytes, bodyStart: start, bodyEnd: end } = message;
  return spliceMessage(message, editMembers(bytes, { start, end }, changes), era, own);
}

/** The change of `_meta` that makes these changes in it; adds it or, when empty, removes it. Null for none. */
export function metaChange(bytes: Buffer, object: Range, changes: readonly Change[]): Change | null {
  const meta = field(bytes, object.start, object.end, '_meta');
  if (!isObject(bytes, meta)) {
    const set = changes.filter(([, json]) => json !== null);
    return set.length === 0 ? null : ['_meta', editObject(EMPTY_OBJECT, whole(EMPTY_OBJECT), set)];
  }
  const after = editObject(bytes, meta, changes);
  if (after.equals(bytes.subarray(meta.start, meta.end))) return null;
  return ['_meta', isEmptyObject(after) ? null : after];
}

/** The change of the array `key` that replaces its elements; null when `edit` gave every buffer back. */
export function elementsChange(
  bytes: Buffer,
  object: Range,
  key: string,
  edit: (element: Buffer) => Buffer,
): Change | null {
  const list = field(bytes, object.start, object.end, key);
  if (list === null) return null;
  const edits: Edit[] = [];
  for (const { start, end } of elements(bytes, list.start, list.end)) {
    const element = bytes.subarray(start, end);
    const insert = edit(element);
    if (insert !== element) edits.push({ start: start - list.start, end: end - list.start, insert });
  }
  return edits.length === 0 ? null : [key, splice(bytes.subarray(list.start, list.end), edits)];
}

function isEmptyObject(json: Buffer): boolean {
  return /^\s*\{\s*\}\s*$/.test(json.length > 64 ? '' : json.toString('latin1'));
}

const EMPTY_OBJECT = Buffer.from('{}');
