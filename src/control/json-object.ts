import { isTooDeep } from '../model/json-depth.ts';
import { parseObject } from '../model/json-object.ts';
import { faultIn, type Schema } from '../model/schema.ts';

/** Limit of nesting for messages of any source, since servers recurse over their input. */
const MAX_DEPTH = 256;

/** The JSON object in UTF-8 bytes, nested no deeper than a client's message may be; otherwise null. */
export function jsonObject(body: Buffer): object | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    return isTooDeep(text, MAX_DEPTH) ? null : parseObject(text);
  } catch {
    return null;
  }
}

/** The body, if it matches its schema; otherwise the fault as text. */
export function bodyOf<T extends object>(schema: Schema<T>, body: Buffer): T | string {
  const value = jsonObject(body);
  return value === null ? 'the body has to be one JSON object' : (faultIn(schema, value) ?? (value as T));
}
