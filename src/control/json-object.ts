/** Deeper than this a message is refused wherever it comes in; servers recurse over what they are given. */
const MAX_DEPTH = 256;

/** Whether the bytes are one JSON object in UTF-8, nested as deeply as a client's message may be. */
export function isJsonObject(body: Buffer): boolean {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    if (isTooDeep(text)) return false;
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** The object; null for what is none. */
export function jsonObject(body: Buffer): unknown {
  return isJsonObject(body) ? JSON.parse(body.toString()) : null;
}

/** Looked at before parsing, so that the parser never meets the depth. Says nothing of text that is no JSON. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (inString) {
      if (c === 0x5c) i++;
      else if (c === 0x22) inString = false;
    } else if (c === 0x22) inString = true;
    else if (c === 0x7b || c === 0x5b) {
      if (++depth > MAX_DEPTH) return true;
    } else if (c === 0x7d || c === 0x5d) depth--;
  }
  return false;
}
