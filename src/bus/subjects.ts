export const INTERNAL = 'trunkline';

/**
 * Adds the name of the cluster to a subject or bucket: `trunkline-NAME` and `mcp-NAME` in place of `trunkline` and `mcp`. Returns
 * others unchanged, and all of them if `cluster` is null (a cluster without a name).
 */
export function scoped(cluster: string | null, subject: string): string {
  return cluster === null ? subject : subject.replace(/^(trunkline|mcp)(?=[._])/, `$1-${cluster}`);
}

export function unscoped(cluster: string | null, subject: string): string {
  if (cluster === null) return subject;
  for (const own of [INTERNAL, 'mcp']) {
    if (subject.startsWith(`${own}-${cluster}.`)) return own + subject.slice(own.length + 1 + cluster.length);
  }
  return subject;
}

export function bundleSubject(peer: string): string {
  return `${INTERNAL}.call.${peer}`;
}

/** Where the messaging system reports that a bundle (`*`: any) has no subscriber. No client may publish there. */
export function noResponderSubject(peer: string, bundle: number | '*'): string {
  return `${INTERNAL}.unheard.${peer}.b.${bundle}`;
}

/** Escapes UTF-8 bytes outside `[A-Za-z0-9_-]` as `=XX`. Reversible. */
export function subjectToken(text: string): string {
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
