/** Everything between nodes is below this, and signed. */
export const INTERNAL = 'trunkline';

/** Where the frames of calls go that are for one peer. */
export function callSubject(peer: string): string {
  return `${INTERNAL}.call.${peer}`;
}

/** What the messaging system is to tell when nobody hears a message in which calls begin. */
export function unheardSubject(peer: string, what: 'bundle' | 'offer' | '*', id: string): string {
  return `${INTERNAL}.unheard.${peer}.${what}.${id}`;
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
