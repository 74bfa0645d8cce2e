import { inspect } from 'node:util';

/** Replaces secret values in texts. */
export const MASK = '[redacted]';

/** A value that must not appear in logs, statuses, metrics or errors: it prints as `[redacted]`; only `reveal` returns it. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}

export function revealed(secrets: Readonly<Record<string, Secret>>): Record<string, string> {
  const values: Record<string, string> = Object.create(null);
  for (const [name, secret] of Object.entries(secrets)) values[name] = secret.reveal();
  return values;
}

const SECRET_WORD =
  /token|secret|passw|passphrase|pwd|credential|private|authorization|bearer|cookie|jwt|api[-_]?key|access[-_]?key|[-_]key$|^key$|(?:^|[-_])(?:pat|auth)$|dsn$/i;
const KEY_IN_CAMEL_CASE = /[a-z\d]Key$/;
/** Names about texts for models, numbers of tokens, and paths of secrets. */
const ORDINARY_NAME =
  /tokeni[sz]er|(?:max|min|num|count|total|limit|budget|context|prompt|input|output|completion|thinking)[-_]?\w{0,16}tokens$|(?:[-_]|[a-z](?=[FPD]))(?:file|path|dir)$/i;
const ORDINARY_HEADER = /^(?:accept(?:-.*)?|content-type|user-agent|mcp-.*|cache-control|connection|origin|referer)$/i;

/** Shorter values are not masked in texts: `1`, `true` or `prod` would mask half of every line. */
export const SHORTEST_SECRET = 6;

/** Whether a variable or option of this name usually holds a secret. */
export function namesSecret(name: string): boolean {
  return (SECRET_WORD.test(name) || KEY_IN_CAMEL_CASE.test(name)) && !ORDINARY_NAME.test(name);
}

/** Servers get variables with such names only if a definition declares them; `TRUNKLINE_INPUT_…` answers a prompt. */
export const WITHHELD_NAME: RegExp = /TOKEN|SECRET|PASSWORD|^TRUNKLINE_INPUT_/i;

/** Whether the value of this name may be a secret. False for the name of a variable that holds it. */
export function isSecretAssignment(name: string, value: string): boolean {
  return namesSecret(name) && !(/env_var$/.test(name) && /^[A-Z][A-Z0-9_]*$/.test(value));
}

/** Whether a variable holds a secret, by its name or the form of its value. */
export function isSecretVariable(name: string, value: string): boolean {
  return isSecretAssignment(name, value) || looksSecret(value) || isKey(value);
}

const ADDRESS = /[a-z][a-z\d+.-]{0,30}:\/\/[^\s"'<>]+/i;
/** The paths and queries of these URLs may contain an `@`. */
const WEB = /^(?:https?|wss?):/i;
const KEY =
  /^(?:[spr]k|gh[a-z]|github|glpat|xox[a-z]|hf|npm|shp[a-z]+|dop|lin|ntn|pat)[-_]\w{6}|^(?:AKIA|ASIA|AIza|eyJ)\w{6}/;

/** Whether the value looks like a secret: a long word of letters and digits, or a URL with a password. */
export function looksSecret(value: string): boolean {
  if (userInfo(ADDRESS.exec(value)?.[0] ?? '').passwords.length > 0) return true;
  return /^[\w.+=~-]{12,4096}$/.test(value) && /[a-z]/i.test(value) && (value.match(/\d/g)?.length ?? 0) >= 3;
}

/** Words and numbers between hyphens and underscores, as in names of files and folders. */
const PLAIN_PARTS = /(?<![^_-])(?:[A-Z]?[a-z]+|[A-Z]+|\d+)(?![^_-])/g;

/** Whether the word is a known kind of key, or random apart from its plain words, unlike `my-server-aB3xY1`. */
export function isKey(word: string): boolean {
  if (KEY.test(word)) return true;
  if (!/^[\w+=~-]{20,4096}$/.test(word)) return false;
  const random = word.replaceAll(PLAIN_PARTS, '').replaceAll(/[_-]/g, '');
  return random.length >= 12 && /[a-z]/.test(word) && /[A-Z]/.test(word) && /\d/.test(word);
}

/** Whether logs must not show the value of this header: true for all but a few that never hold anything private. */
export function isSecretHeader(name: string): boolean {
  return !ORDINARY_HEADER.test(name);
}

/** Texts to mask: the value, the part after `Bearer` or `Basic`, and the passwords in the latter and in a URL. */
export function secretForms(value: string): string[] {
  const [, scheme = '', bare = ''] = /^(Bearer|Basic|Token)\s+(.+)$/is.exec(value) ?? [];
  const pair = scheme.toLowerCase() === 'basic' ? Buffer.from(bare, 'base64').toString('utf8') : '';
  const { passwords } = userInfo(ADDRESS.exec(value)?.[0] ?? '');
  const forms = [value, bare, pair, pair.slice(pair.indexOf(':') + 1), ...passwords, ...passwords.map(decoded)];
  return [...new Set(forms)].filter((form) => form.length >= SHORTEST_SECRET);
}

/**
 * The user part of a URL, without the `@`, and its possible passwords. An unencoded password may contain `/`, `#` and `?`:
 * it ends at the last `@`, unless the text before these may be a host with a port.
 */
export function userInfo(address: string): { readonly user: string; readonly passwords: readonly string[] } {
  const behind = address.slice(address.indexOf('://') + 3);
  const authority = /^[^/?#]*/.exec(behind)![0];
  const near = authority.lastIndexOf('@');
  const notWeb = !WEB.test(address) || (near < 0 && /^[^:[]*:(?=.*[^\d\uE000]).+$/s.test(authority));
  const end = notWeb && address.includes('://') ? behind.lastIndexOf('@') : near;
  if (end < 0 || !address.includes('://')) return { user: '', passwords: [] };
  const user = behind.slice(0, end);
  const colon = user.indexOf(':');
  if (colon < 0) return { user, passwords: [] };
  const passwords = new Set([near, end].filter((at) => at > colon + 1).map((at) => behind.slice(colon + 1, at)));
  return { user, passwords: [...passwords] };
}

export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
