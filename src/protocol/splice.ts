/** Edits of byte ranges; all other bytes stay unchanged. Edits of members keep the commas correct. */

import { type Era, Message } from '../model/message.ts';
import { claimAndReturn, reframed, takeBuffer } from '../model/pooled-buffers.ts';
import { elements, entries, field, fullRange, isObject, keyIs, type Range } from './fields.ts';
import { isValidJson } from './grammar.ts';
import { scanMessage } from './scan.ts';
import { skipSpace } from './skip.ts';

/** Replaces the half-open range by `insert`; `start === end` inserts. Texts are written as UTF-8. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly insert: string | Buffer;
}

/** Larger messages are passed on in parts; below this size one copy is cheaper than more buffers. */
const COPY_LIMIT = 16 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;

/** The edited bytes as consecutive parts: views of the unchanged bytes of a large message, one buffer for a small one. */
export function spliceParts(bytes: Buffer, edits: readonly Edit[]): Buffer[] {
  if (bytes.length <= COPY_LIMIT) return [splice(bytes, edits)];
  const parts: Buffer[] = [];
  let at = 0;
  for (const edit of inOrder(edits)) {
    checkOrder(bytes, edit, at);
    if (edit.start > at) parts.push(bytes.subarray(at, edit.start));
    if (edit.insert.length > 0) parts.push(toBuffer(edit.insert));
    at = edit.end;
  }
  if (at < bytes.length) parts.push(bytes.subarray(at));
  return parts;
}

/** The edited bytes in one buffer, of pooled memory if large; the same buffer without edits. Edits must not overlap. */
export function splice(bytes: Buffer, edits: readonly Edit[]): Buffer {
  if (edits.length === 0) return bytes;
  let size = bytes.length;
  for (const { start, end, insert } of edits) size += byteLength(insert) - (end - start);
  const out = takeBuffer(size);
  let at = 0;
  let to = 0;
  for (const edit of inOrder(edits)) {
    checkOrder(bytes, edit, at);
    to += bytes.copy(out, to, at, edit.start);
    to += typeof edit.insert === 'string' ? out.write(edit.insert, to) : edit.insert.copy(out, to);
    at = edit.end;
  }
  bytes.copy(out, to, at);
  return out;
}

/** Longest bytes at both ends together that are copied to keep the bytes between them in place. */
const MAX_ENDS_BYTES = 64 * 1024;

/** As `splice` for bytes of one owner: with edits near the ends of a large body, its middle stays in place. */
function spliceOwn(bytes: Buffer, edits: readonly Edit[]): Buffer {
  if (edits.length === 0) return bytes;
  const ordered = inOrder(edits);
  // The longest range without an edit.
  let from = 0;
  let to = ordered[0]?.start ?? bytes.length;
  ordered.forEach(({ end }, i) => {
    const next = ordered[i + 1]?.start ?? bytes.length;
    if (next - end > to - from) [from, to] = [end, next];
  });
  if (bytes.length - (to - from) <= MAX_ENDS_BYTES) {
    const before = ordered.filter(({ end }) => end <= from);
    const after = ordered.slice(before.length).map((edit) => ({ ...edit, start: edit.start - to, end: edit.end - to }));
    const ends = [splice(Buffer.from(bytes.subarray(0, from)), before), splice(Buffer.from(bytes.subarray(to)), after)];
    const inPlace = reframed(bytes, from, to, ends[0]!, ends[1]!);
    if (inPlace !== null) return inPlace;
  }
  const out = splice(bytes, edits);
  claimAndReturn(bytes);
  return out;
}

/**
 * The message with edits, which must not cross the boundaries of id and body. `era`: of the new body. `own`: the caller is
 * the only user of the message and gives it up.
 */
export function spliceMessage(message: Message, edits: readonly Edit[], era: Era = message.era, own = false): Message {
  if (edits.length === 0 && era === message.era) return message;
  const sizes = edits.map(({ start, end, insert }) => ({ start, end, by: byteLength(insert) - (end - start) }));
  const startOf = (at: number): number =>
    at < 0 ? at : sizes.reduce((sum, edit) => (edit.end <= at ? sum + edit.by : sum), at);
  const endOf = (at: number): number =>
    at < 0 ? at : sizes.reduce((sum, edit) => (edit.start < at ? sum + edit.by : sum), at);
  return new Message(
    own && message.bytes.length > MAX_ENDS_BYTES ? spliceOwn(message.bytes, edits) : splice(message.bytes, edits),
    message.kind,
    era,
    message.method,
    startOf(message.idStart),
    endOf(message.idEnd),
    startOf(message.bodyStart),
    endOf(message.bodyEnd),
  );
}

/** The message's bytes, as parts, with another id. Lexemes are as in `Message.id`: one character per byte. */
export function withId(message: Message, idLexeme: string): Buffer[] {
  const { bytes, idStart, idEnd } = message;
  if (idStart < 0) return [splice(bytes, editMembers(bytes, envelope(bytes), [['id', latin1(idLexeme)]]))];
  const tail = bytes.length - idEnd;
  if (bytes.length > COPY_LIMIT) {
    return [bytes.subarray(0, idStart), latin1(idLexeme), bytes.subarray(idEnd)];
  }
  const copy = Buffer.allocUnsafe(idStart + idLexeme.length + tail);
  bytes.copy(copy, 0, 0, idStart);
  copy.write(idLexeme, idStart, 'latin1');
  bytes.copy(copy, idStart + idLexeme.length, idEnd);
  return [copy];
}

/** The message in memory of its own: holding it does not keep the chunk that it arrived in alive. */
export function detached(message: Message): Message {
  const { kind, era, method, idStart, idEnd, bodyStart, bodyEnd } = message;
  const bytes = Buffer.allocUnsafeSlow(message.bytes.length);
  message.bytes.copy(bytes);
  return new Message(bytes, kind, era, method, idStart, idEnd, bodyStart, bodyEnd);
}

/** The message with `params` (or another body) replaced, or added if it has none. */
export function withBody(message: Message, json: string, era: Era = message.era): Message {
  const { bytes, bodyStart, bodyEnd } = message;
  if (bodyStart >= 0) return spliceMessage(message, [{ start: bodyStart, end: bodyEnd, insert: json }], era);
  const scanned = scanMessage(splice(bytes, editMembers(bytes, envelope(bytes), [['params', json]])), era, 'relaxed');
  if ('reason' in scanned) throw new TypeError(`a message cannot take this body: ${scanned.reason}`);
  return scanned;
}

/** Edits that set these members; null removes. An existing member keeps its place, a new one becomes the first. */
export function editMembers(
  bytes: Buffer,
  object: Range,
  changes: readonly (readonly [key: string, json: string | Buffer | null])[],
): Edit[] {
  const members = [...entries(bytes, object.start, object.end)];
  const edits: Edit[] = [];
  const removed = new Array<boolean>(members.length).fill(false);
  const added: Buffer[] = [];
  for (const [key, json] of changes) {
    let found = false;
    members.forEach((member, i) => {
      if (!keyIs(bytes, member.keyStart, member.keyEnd, key)) return;
      found = true;
      if (json === null) removed[i] = true;
      else edits.push({ start: member.valueStart, end: member.valueEnd, insert: json });
    });
    if (!found && json !== null) added.push(Buffer.from(`${JSON.stringify(key)}:`), toBuffer(json), COMMA);
  }
  const places = members.map(({ keyStart, valueEnd }) => ({ start: keyStart, end: valueEnd }));
  edits.push(...cuts(places, removed));
  if (added.length > 0) {
    if (removed.every(Boolean)) added.pop();
    edits.push({ start: object.start + 1, end: object.start + 1, insert: Buffer.concat(added) });
  }
  return edits;
}

/**
 * The document without line breaks, for stdio and SSE: a space between tokens, an escape in strings, so that no server can
 * forge a frame. The same buffer if it has none.
 */
export function oneLine(bytes: Buffer): Buffer {
  if (!bytes.includes(LF) && !bytes.includes(CR)) return bytes;
  const out = Buffer.allocUnsafe(2 * bytes.length);
  let to = 0;
  let inString = false;
  for (let i = 0; i < bytes.length; i++) {
    const c = bytes[i]!;
    if (c === LF || c === CR) {
      if (inString) {
        out[to++] = 0x5c;
        out[to++] = c === LF ? 0x6e : 0x72;
      } else out[to++] = SPACE;
      continue;
    }
    out[to++] = c;
    if (c === 0x22) inString = !inString;
    else if (c === 0x5c && inString && bytes[i + 1]! >= SPACE) out[to++] = bytes[++i]!;
  }
  return out.subarray(0, to);
}

export function envelope(bytes: Buffer): Range {
  return { start: skipSpace(bytes, 0), end: bytes.length };
}

const COMMA = Buffer.from(',');

/** Edits that remove the marked items from a list, each run with exactly its comma. */
export function cuts(items: readonly Range[], cut: readonly boolean[]): Edit[] {
  const edits: Edit[] = [];
  for (let first = 0; first < items.length; first++) {
    if (!cut[first]) continue;
    let last = first;
    while (cut[last + 1]) last++;
    const after = items[last + 1];
    const before = items[first - 1];
    const start = after === undefined && before !== undefined ? before.end : items[first]!.start;
    edits.push({ start, end: after === undefined ? items[last]!.end : after.start, insert: '' });
    first = last;
  }
  return edits;
}

function inOrder(edits: readonly Edit[]): readonly Edit[] {
  if (edits.length < 2) return edits;
  return [...edits].sort((a, b) => a.start - b.start || a.end - b.end);
}

function checkOrder(bytes: Buffer, edit: Edit, at: number): void {
  if (edit.start < at || edit.end < edit.start || edit.end > bytes.length) throw new RangeError('edits overlap');
}

function byteLength(insert: string | Buffer): number {
  return typeof insert === 'string' ? Buffer.byteLength(insert) : insert.length;
}

function toBuffer(json: string | Buffer): Buffer {
  return typeof json === 'string' ? Buffer.from(json) : json;
}

function latin1(lexeme: string): Buffer {
  return Buffer.from(lexeme, 'latin1');
}

/** Edits of JSON objects by their bytes: members that are not changed stay as they were written. */

/** A member's new JSON value; null removes the member. */
export type Change = readonly [key: string, json: string | Buffer | null];

/** The object with the changes, its other members unchanged; the same bytes (a view) without changes. */
export function editObject(bytes: Buffer, object: Range, changes: readonly Change[]): Buffer {
  const own = bytes.subarray(object.start, object.end);
  return splice(own, editMembers(own, fullRange(own), changes));
}

/** A server's object without the members that are no valid JSON; the same bytes if it is valid. */
export function validMembers(object: Buffer): Buffer {
  if (isValidJson(object)) return object;
  const kept: string[] = [];
  for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(object, 0, object.length)) {
    const [key, value] = [object.subarray(keyStart, keyEnd), object.subarray(valueStart, valueEnd)];
    if (isValidJson(key) && isValidJson(value)) kept.push(`${key}:${value}`);
  }
  return Buffer.from(`{${kept.join(',')}}`);
}

/** The message with the changes in its body, which is an object; `era` and `own` as in `spliceMessage`. */
export function editBody(message: Message, changes: readonly Change[], era: Era = message.era, own = false): Message {
  const { bytes, bodyStart: start, bodyEnd: end } = message;
  return spliceMessage(message, editMembers(bytes, { start, end }, changes), era, own);
}

/** The change of `_meta` that makes these changes in it; adds it or, if it becomes empty, removes it. Null for no change. */
export function metaChange(bytes: Buffer, object: Range, changes: readonly Change[]): Change | null {
  const meta = field(bytes, object.start, object.end, '_meta');
  if (!isObject(bytes, meta)) {
    const set = changes.filter(([, json]) => json !== null);
    return set.length === 0 ? null : ['_meta', editObject(EMPTY_OBJECT, fullRange(EMPTY_OBJECT), set)];
  }
  const after = editObject(bytes, meta, changes);
  if (after.equals(bytes.subarray(meta.start, meta.end))) return null;
  return ['_meta', isEmptyObject(after) ? null : after];
}

/** The change of the array `key` that replaces its elements; null if `edit` returned every buffer unchanged. */
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
