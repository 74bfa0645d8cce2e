import { skipSpace, skipString, skipValue } from '../../protocol/skip.ts';

/**
 * Whether the bytes are a JSON-RPC answer (`result` or `error`) rather than a request or notification: what a reply
 * stream must know of its messages to tell its end from its loss. Looks at the first members only and never into a
 * `result`, so the size of the answer does not matter. A batch is judged by its first element. What is not
 * recognisable counts as no answer; the receiver will complain of it.
 */
export function isAnswer(bytes: Buffer): boolean {
  const end = bytes.length;
  let at = skipSpace(bytes, 0);
  if (bytes[at] === 0x5b) at = skipSpace(bytes, at + 1);
  if (bytes[at] !== 0x7b) return false;
  at = skipSpace(bytes, at + 1);
  while (bytes[at] === 0x22) {
    const keyEnd = skipString(bytes, at, end);
    if (keyEnd < 0) return false;
    const key = bytes.toString('latin1', at + 1, keyEnd - 1);
    if (key === 'result' || key === 'error') return true;
    if (key === 'method') return false;
    at = skipSpace(bytes, keyEnd);
    if (bytes[at] !== 0x3a) return false;
    at = skipValue(bytes, skipSpace(bytes, at + 1), end);
    if (at < 0) return false;
    at = skipSpace(bytes, at);
    if (bytes[at] !== 0x2c) return false;
    at = skipSpace(bytes, at + 1);
  }
  return false;
}
