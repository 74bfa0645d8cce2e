const SECRET_WORD =
  /token|secret|passw|pwd|credential|private|authorization|cookie|api[-_]?key|access[-_]?key|[-_]key$|^key$|[-_]pat$|dsn$/i;
const ORDINARY_HEADER = /^(?:accept(?:-.*)?|content-type|user-agent|mcp-.*|cache-control|connection|origin|referer)$/i;

/** Shorter values are not scrubbed from logs: `1` or `true` would star out half of every line. */
const SHORTEST_SECRET = 6;

/** Whether a variable or option of this name usually holds a secret. */
export function namesSecret(name: string): boolean {
  return SECRET_WORD.test(name);
}

const USER_INFO = /:\/\/[^/\s:@]*:([^/\s@]+)@/;

/**
 * Whether a value looks as only secrets do, whatever it is called: one long word with letters and several digits, or
 * an address with a password.
 */
export function looksSecret(value: string): boolean {
  if (USER_INFO.test(value)) return true;
  return /^[\w.+=~-]{12,4096}$/.test(value) && /[a-z]/i.test(value) && (value.match(/\d/g)?.length ?? 0) >= 3;
}

/** Whether the value of such a header is kept out of logs. All are but a few that never hold anything private. */
export function isSecretHeader(name: string): boolean {
  return !ORDINARY_HEADER.test(name);
}

/** What to look for in texts that leave the process: the value, what follows `Bearer ` or `Basic `, a URL's password. */
export function secretForms(value: string): string[] {
  const bare = /^(?:Bearer|Basic|Token)\s+(.+)$/is.exec(value)?.[1];
  const password = USER_INFO.exec(value)?.[1];
  return [value, bare ?? '', password ?? ''].filter((form) => form.length >= SHORTEST_SECRET);
}
