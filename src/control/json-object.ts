import { isTooDeep } from '../model/json-depth.ts';
import { faultIn, type Schema } from '../model/schema.ts';

/** Deeper than this a message is refused wherever it comes in; servers recurse over what they are given. */
const MAX_DEPTH = 256;

/** The object that the bytes are in UTF-8, nested as deeply as a client's message may be; null for what is none. */
export function jsonObject(body: Buffer): object | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    const value: unknown = isTooDeep(text, MAX_DEPTH) ? null : JSON.parse(text);
    return typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** The body as its schema describes it; else what is wrong with it. */
export function bodyOf<T extends object>(schema: Schema<T>, body: Buffer): T | string {
  const value = jsonObject(body);
  return value === null ? 'the body has to be one JSON object' : (faultIn(schema, value) ?? (value as T));
}
