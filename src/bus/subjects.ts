/** Everything between nodes is below this, and signed. */
export const INTERNAL = 'trunkline';

/** Where bundles of frames go that are for one peer. */
export function bundleSubject(peer: string): string {
  return `${INTERNAL}.call.${peer}`;
}

/** Where single frames of calls go: to the caller's end (`c`) or to the serving end (`s`) at a peer. */
export function callSubject(peer: string, end: 'c' | 's', call: string): string {
  return `${INTERNAL}.call.${peer}.${end}.${call}`;
}

/**
 * Where the messaging system itself says that a request has no subscriber: of one that goes alone (`c`) under its call, of
 * those in a bundle (`b`) under its number. No client needs to publish there.
 */
export function noResponderSubject(peer: string, what: 'c' | 'b', id: string): string {
  return `${INTERNAL}.unheard.${peer}.${what}.${id}`;
}

export function noResponderSubjects(peer: string): string {
  return `${INTERNAL}.unheard.${peer}.*.*`;
}

/** All of them at a peer. */
export function callSubjects(peer: string): string {
  return `${INTERNAL}.call.${peer}.*.*`;
}

/** Any text as one word of a subject: bytes outside `[A-Za-z0-9_-]` as `=XX` of their UTF-8. Reversible. */
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

/** Whether a subject that was subscribed to takes in this one. */
export function subjectMatches(pattern: string, subject: string): boolean {
  const wanted = pattern.split('.');
  const words = subject.split('.');
  for (let at = 0; at < wanted.length; at++) {
    if (wanted[at] === '>') return words.length > at;
    if (at >= words.length || (wanted[at] !== '*' && wanted[at] !== words[at])) return false;
  }
  return words.length === wanted.length;
}
