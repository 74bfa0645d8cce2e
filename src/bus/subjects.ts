export const INTERNAL = 'trunkline';

export function bundleSubject(peer: string): string {
  return `${INTERNAL}.call.${peer}`;
}

/** `c`: the caller's end; `s`: the serving end. */
export function callSubject(peer: string, end: 'c' | 's', call: string): string {
  return `${INTERNAL}.call.${peer}.${end}.${call}`;
}

/**
 * Where the messaging system reports that a request has no subscriber: a single one (`c`) by its call, a bundle (`b`) by its
 * number. Clients need not publish there.
 */
export function noResponderSubject(peer: string, what: 'c' | 'b', id: string): string {
  return `${INTERNAL}.unheard.${peer}.${what}.${id}`;
}

export function noResponderSubjects(peer: string): string {
  return `${INTERNAL}.unheard.${peer}.*.*`;
}

export function callSubjects(peer: string): string {
  return `${INTERNAL}.call.${peer}.*.*`;
}

/** Bytes outside `[A-Za-z0-9_-]` as `=XX` of UTF-8. Reversible. */
export function subjectWord(text: string): string {
  if (PLAIN.test(text)) return text;
  let word = '';
  for (const byte of Buffer.from(text)) {
    const char = String.fromCharCode(byte);
    word += PLAIN.test(char) ? char : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return word;
}

const PLAIN = /^[A-Za-z0-9_-]+$/;

export function subjectMatches(pattern: string, subject: string): boolean {
  const wanted = pattern.split('.');
  const words = subject.split('.');
  for (let at = 0; at < wanted.length; at++) {
    if (wanted[at] === '>') return words.length > at;
    if (at >= words.length || (wanted[at] !== '*' && wanted[at] !== words[at])) return false;
  }
  return words.length === wanted.length;
}
