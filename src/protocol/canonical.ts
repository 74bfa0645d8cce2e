import { createHash } from 'node:crypto';
import { decodeString, elements, entries } from './fields.ts';
import { skipSpace } from './skip.ts';

/**
 * Canonical JSON text after the manner of RFC 8785: no white space, members sorted by UTF-16 code units, strings in
 * their shortest form; but number lexemes stay as written, because `1.0` and `12345678901234567890` are not ours to
 * round. Of a repeated key the last one counts.
 */
export function canonical(json: Buffer | string): string {
  const bytes = typeof json === 'string' ? Buffer.from(json) : json;
  return write(bytes, skipSpace(bytes, 0), bytes.length);
}

/** A short digest of a capabilities object; `{}` for the empty one, so that it can be read in logs. */
export function fingerprint(capabilitiesJson: string): string {
  const text = canonical(capabilitiesJson === '' ? '{}' : capabilitiesJson);
  return text === '{}' ? text : createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function write(bytes: Buffer, start: number, end: number): string {
  switch (bytes[start]) {
    case 0x7b: {
      const members = new Map<string, string>();
      for (const member of entries(bytes, start, end)) {
        const key = decodeString(bytes, member.keyStart, member.keyEnd) ?? '';
        members.set(key, write(bytes, member.valueStart, member.valueEnd));
      }
      const keys = [...members.keys()].sort();
      return `{${keys.map((key) => `${JSON.stringify(key)}:${members.get(key)}`).join(',')}}`;
    }
    case 0x5b:
      return `[${Array.from(elements(bytes, start, end), (item) => write(bytes, item.start, item.end)).join(',')}]`;
    case 0x22: {
      const value = decodeString(bytes, start, end);
      return value === null ? bytes.toString('utf8', start, end).trimEnd() : JSON.stringify(value);
    }
    default:
      return bytes.toString('utf8', start, end).trimEnd();
  }
}
