import { looksSecret, namesSecret } from '../../config/problem/secret-words.ts';
import { shownArguments } from '../../upstream/process/launch-command.ts';

const MASK = '[redacted]';
const REFERENCE = /\$\{[^}]*\}/g;
/** Of an address: what comes before query and fragment, its host with whoever is named before that, its path. */
const BEFORE_QUERY = /^(?:\$\{[^}]*\}|[^?#])*/;
const HOST = /^(?:\$\{[^}]*\}|[^/])*/;
const ADDRESS = /[a-z][a-z\d+.-]*:\/\/[^\s"'<>]+/gi;
const ASSIGNED = /([\w.-]{1,64})["']?\s*[:=]\s*["']?(?!\[redacted\])[^\s"',;}]/g;
const HEADER_OPTION = /^(?:-H|--headers?)$/;
const HEADER = /^(?:-H|--headers?=)./s;
/** Of programs that take a password so: `-p secret`, `-psecret`, `-u user:secret`. */
const PASSWORD = /^-p(?!\d+(?::\d+)*$)./s;
const PORTS = /^\d+(?::\d+)*$/;
const OPTION = /^(--?[\w-]+=)/;
/** A program in the argument after it may hold anything. */
const SCRIPT_OPTION = /^(?:-[a-z]*[ce]|--eval|--command|\/c)$/i;
/** A key in base64, in which there may be slashes. */
const BASE64 =
  /(?:^|[\s=:"'])(?=[A-Za-z\d+/]*[a-z])(?=[A-Za-z\d+/]*[A-Z])(?=[A-Za-z\d+/]*\d)[A-Za-z\d+][A-Za-z\d+/]{19,}={0,2}(?:$|[\s"',;])/;
/** How keys of well-known services begin. */
const KEY =
  /^(?:[spr]k|gh[a-z]|github|glpat|xox[a-z]|hf|npm|shp[a-z]+|dop|lin|ntn|pat)[-_]\w{6}|^(?:AKIA|ASIA|AIza|eyJ)\w{6}/;
/** Shorter values, such as `1`, are in every text. */
const SHORTEST_VALUE = 4;

/**
 * The arguments of a command for everybody who may listen: as people who look after the gateway are shown them, and what
 * may be a secret by its shape or place is masked as well. Rather an argument is missing than a secret is told. `values`:
 * what the server is given in secret.
 */
export function publicArguments(
  args: readonly string[],
  redact: (text: string) => string,
  values: readonly string[],
): string[] {
  return shownArguments(args, redact).map((shown, index) => {
    const before = args[index - 1] ?? '';
    const text = shown.replaceAll(ADDRESS, (address) => publicAddress(address, redact));
    if (isSecretByPlace(text, before) || tells(text, values)) return (OPTION.exec(text)?.[1] ?? '') + MASK;
    return text;
  });
}

/** An address with its path, and without whoever is named in it, query and fragment. */
export function publicAddress(
  address: string,
  redact: (text: string) => string,
  values: readonly string[] = [],
): string {
  const [plain] = BEFORE_QUERY.exec(redact(address))!;
  const from = plain.indexOf('://') < 0 ? 0 : plain.indexOf('://') + 3;
  const rest = plain.slice(from);
  const [host] = HOST.exec(rest)!;
  const path = rest.slice(host.length).split('/');
  const shown = path.map((part) => (tells(decoded(part), values) ? MASK : part)).join('/');
  return plain.slice(0, from) + host.slice(host.lastIndexOf('@') + 1) + shown;
}

/** A program or a description. */
export function publicText(text: string, redact: (text: string) => string, values: readonly string[]): string {
  const shown = redact(text).replaceAll(ADDRESS, (address) => publicAddress(address, redact));
  return values.some((value) => holds(shown, value)) || assigns(shown) ? MASK : shown;
}

function isSecretByPlace(text: string, before: string): boolean {
  if (text === MASK || text.replaceAll(REFERENCE, '') === '') return false;
  if (SCRIPT_OPTION.test(before) && /\s/.test(text)) return true;
  if (HEADER_OPTION.test(before) || HEADER.test(text) || PASSWORD.test(text)) return true;
  if (before === '-p' && !text.startsWith('-')) return !PORTS.test(text);
  if (/^(?:-u|--user)$/.test(before)) return text.includes(':');
  // What begins like an option and is none.
  return /^--?[\w-]+$/.test(before) && namesSecret(before) && !text.startsWith('--');
}

/** Whether a text holds a value that is known, or one that only secrets look like. References are none. */
function tells(text: string, values: readonly string[]): boolean {
  const plain = text.replaceAll(REFERENCE, ' ');
  if (values.some((value) => holds(plain, value)) || assigns(plain) || BASE64.test(plain)) return true;
  return plain
    .replaceAll(MASK, ' ')
    .split(/[\s,;:="'@/?&(){}[\]|]+/)
    .some(isKey);
}

function isKey(word: string): boolean {
  const mixed = word.length >= 20 && /[a-z]/.test(word) && /[A-Z]/.test(word);
  return mixed || looksSecret(word) || KEY.test(word);
}

function holds(text: string, value: string): boolean {
  return value.length >= SHORTEST_VALUE && text.includes(value);
}

/** `password: x`, `{"apiKey":"x"}`, `host=h;pwd=x` */
function assigns(text: string): boolean {
  return [...text.matchAll(ASSIGNED)].some(([, name]) => namesSecret(name!));
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
