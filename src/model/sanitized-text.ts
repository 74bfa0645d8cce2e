import {
  decoded,
  isKey,
  isSecretAssignment,
  isSecretHeader,
  isSecretVariable,
  looksSecret,
  MASK,
  namesSecret,
  userInfo,
} from './secret.ts';

/** References in the syntax of any client. */
const REFERENCE = /\$\{\{[^{}]{0,1024}\}\}|\$\{[^{}]{0,1024}\}|\{(?:env|file):[^{}]{0,1024}\}/g;
/** Replaces each character of a reference while the text around it is examined. */
const HELD = '\uE000';
const HELD_PART = /\uE000+/g;
// ADDRESS and LOGIN start at their separator and look back from there, so that a long text is scanned once.
const ADDRESS = /(?=:\/\/)(?<=([a-z][a-z\d+.-]{0,30})):\/\/[^\s"'<>]+/gi;
const ADDRESS_PARTS = /^([^/?#]*)([^?#]*)(.*)$/s;
/** Only the last 64 characters of a longer name are compared. */
const MAX_NAME = 64;
/** `password: x`, `{"apiKey":"x"}`, `host=h;pwd=x`, `Authorization: Bearer x` */
const ASSIGNED =
  /(?<![\w.-])([\w.-]+)["']?\s{0,16}[:=]\s{0,16}["']?(?:(?:Bearer|Basic|Token)\s{1,16})?(?!\[redacted\])([^\s"',;}&]+)/g;
/** `--token x` in the text of a program. */
const OPTION_VALUE = /(?<![\w-])--?([a-z][\w-]{0,63})\s{1,16}([^\s"'-][^\s"']*)/gi;
const BEARER = /\b(?:Bearer|Basic)\s{1,16}([^\s"',;}]+)/gi;
/** `user:password@host` without a scheme; not an image (`name:tag@sha256:…`), nor a package (`npm:name@1.2`). */
const LOGIN =
  /(?=@)(?<=(?<![\w.:/@+-])(?!(?:npm|jsr|git|github|gitlab|gist|file|workspace|mailto):)[\w.+-]{1,64}:([^\s"'@/\\]{1,256}))@(?!sha\d+:)(?:[a-z]|\d+(?:\.\d+){3})/gi;
const WORD = /[^\s,;:="'@/?&(){}[\]|]+/g;
/** Every text with something for `words` to find has one of these characters, or at least 9 characters. */
const MAY_HIDE = /[\s:=]|.{9}/s;
/** A key in base64, which may contain slashes. */
const BASE64 =
  /(?<![^\s=:"'])(?=[A-Za-z\d+/]*[a-z])(?=[A-Za-z\d+/]*[A-Z])(?=[A-Za-z\d+/]*\d)[A-Za-z\d+][A-Za-z\d+/]{19,4096}={0,2}(?![^\s"',;])/g;
const OPTION = /^(--?[\w-]+)=(.+)$/s;
const VARIABLE = /^([A-Za-z_]\w*)=(.+)$/s;
const HEADER = /^(?:-H|--headers?=)?([\w-]{1,64})\s{0,16}[:=]\s{0,16}(.+)$/s;
const ENV_OPTION = /^(?:-e|--env)$/;
const HEADER_OPTION = /^(?:-H|--headers?)$/;
/** The next argument is a program, which may contain anything. */
const SCRIPT_OPTION = /^(?:-[a-z]*[ce]|--eval|--command|\/c)$/i;
const PATH = /^(?:--?[\w-]+=)?(?:\.{0,2}|~)\//;
const PORTS = /^\d+(?::\d+)*$/;

interface HiddenRange {
  readonly start: number;
  readonly end: number;
  readonly by: string;
}

/** One text of a definition, of which parts are hidden. */
export class SanitizedText {
  readonly #original: string;
  readonly #text: string;
  readonly #given: readonly string[];
  readonly #keep: ((value: string) => void) | null;
  readonly #hidden: HiddenRange[] = [];

  /** Calls `keep` with each secret. In unexpanded text (`asWritten`) references stay visible, except their defaults. */
  constructor(text: string, given: readonly string[], keep: ((value: string) => void) | null, asWritten: boolean) {
    this.#original = text;
    this.#text = asWritten ? text.replaceAll(REFERENCE, held) : text;
    this.#given = given;
    this.#keep = keep;
  }

  /** Hides the whole text as one secret. */
  whole(): this {
    this.#hide(0, this.#text.length, true);
    return this;
  }

  /** Hides secrets in an argument of a command; `before` is the previous argument. A package name may look like a secret. */
  argument(before: string, isPackage = false): this {
    const text = this.#text;
    const name = /^--?([\w-]+)$/.exec(before)?.[1];
    const [, option = '', value = ''] = OPTION.exec(text) ?? [];
    // After an option that needs a value, text that begins like a short option is the value.
    const isValue = !text.startsWith('--') && !/^-\w$/.test(text);
    if (name !== undefined && namesSecret(name) && isValue) this.#hide(0, text.length, true);
    else if (namesSecret(option.replace(/^-+/, ''))) this.#hideEnd(value, true);
    else if (ENV_OPTION.test(before) && VARIABLE.test(text)) this.#variable(text, true);
    else if (option === '--env') this.#variable(value, true);
    else if (HEADER_OPTION.test(before) || /^(?:-H|--headers?=)./s.test(text)) this.#header();
    else if (SCRIPT_OPTION.test(before) && /\s/.test(text)) {
      this.words(true);
      this.#hide(0, text.length, false);
    } else if (/^(?:-u|--user)$/.test(before) && text.includes(':') && !PORTS.test(text)) {
      this.#hideEnd(text.slice(text.indexOf(':') + 1), true);
      this.#hide(0, text.length, false);
    } else if (before === '-p' && !isPackage && !text.startsWith('-') && !PORTS.test(text))
      this.#hide(0, text.length, isKey(text));
    else if (/^-p./s.test(text) && !PORTS.test(text.slice(2))) this.#hideEnd(text.slice(2), isKey(text.slice(2)));
    else this.#variable(text, false);
    return this.words(!isPackage && !PATH.test(text));
  }

  /** Hides addresses, assignments and keys in the text; with `lookingSo` also words that only look like keys. */
  words(lookingSo: boolean): this {
    if (MAY_HIDE.test(this.#text)) this.#look(lookingSo);
    for (const value of this.#given) {
      for (let at = this.#text.indexOf(value); at >= 0; at = this.#text.indexOf(value, at + value.length)) {
        this.#hide(at, at + value.length, false);
      }
    }
    return this;
  }

  #look(lookingSo: boolean): void {
    for (const { 0: rest, 1: scheme, index } of this.#text.matchAll(ADDRESS))
      this.#address(`${scheme}${rest}`, index - scheme!.length);
    for (const pattern of [ASSIGNED, OPTION_VALUE]) {
      for (const match of this.#text.matchAll(pattern)) {
        if (isSecretAssignment(match[1]!.slice(-MAX_NAME), match[2]!)) this.#hideIn(match.index, match[0], match[2]!);
      }
    }
    for (const match of this.#text.matchAll(BEARER)) this.#hideIn(match.index, match[0], match[1]!);
    for (const { 1: password, index } of this.#text.matchAll(LOGIN)) this.#hide(index - password!.length, index, true);
    for (const { 0: run, index } of this.#text.matchAll(WORD)) {
      const word = run.endsWith('.') ? run.slice(0, -1) : run;
      const sure = isKey(word);
      if (sure || (lookingSo && (looksSecret(word) || isMixed(word)))) this.#hide(index, index + word.length, sure);
    }
    if (lookingSo)
      for (const { 0: key, index } of this.#text.matchAll(BASE64)) this.#hide(index, index + key.length, false);
  }

  /** The hidden ranges in order, without the references in them. */
  parts(): { readonly start: number; readonly end: number }[] {
    const parts: { readonly start: number; readonly end: number }[] = [];
    for (const { start, end } of this.#inOrder()) {
      let from = start;
      for (const { 0: reference, index } of this.#text.slice(start, end).matchAll(HELD_PART)) {
        if (start + index > from) parts.push({ start: from, end: start + index });
        from = start + index + reference.length;
      }
      if (end > from) parts.push({ start: from, end });
    }
    return parts;
  }

  toString(): string {
    let shown = '';
    let from = 0;
    for (const { start, end, by } of this.#inOrder()) {
      if (start >= from) shown += this.#original.slice(from, start) + by;
      from = Math.max(from, end);
    }
    return shown + this.#original.slice(from);
  }

  #inOrder(): readonly HiddenRange[] {
    return this.#hidden.toSorted((a, b) => a.start - b.start || b.end - a.end);
  }

  #variable(assignment: string, always: boolean): void {
    const [, name, value] = VARIABLE.exec(assignment) ?? [];
    if (name === undefined) return;
    const sure = isSecretVariable(name, value!);
    if (always || namesSecret(name)) this.#hideEnd(value!, sure);
  }

  #header(): void {
    const [, name, value] = HEADER.exec(this.#text) ?? [];
    if (name === undefined) this.#hide(0, this.#text.length, false);
    else this.#hideEnd(value!, isSecretHeader(name));
  }

  #address(address: string, at: number): void {
    const start = at + address.indexOf('://') + 3;
    const { user, passwords } = userInfo(address);
    if (user !== '') {
      for (const password of passwords.length > 0 ? passwords : [user]) {
        this.#hide(start + user.indexOf(password), start + user.indexOf(password) + password.length, true);
        this.#keep?.(decoded(password));
      }
      this.#hide(start, start + user.length, false);
    }
    const behind = user === '' ? start : start + user.length + 1;
    const [, host = '', path = '', rest = ''] = ADDRESS_PARTS.exec(address.slice(behind - at)) ?? [];
    // Not a port, so the beginning of a password whose `@` is missing.
    const noPort = /^[^:[]*:(?!\d+(?:,|$))(.+)$/s.exec(host)?.[1] ?? '';
    this.#hide(behind + host.length - noPort.length, behind + host.length, false);
    let from = behind + host.length;
    for (const part of path.split('/')) {
      const plain = decoded(part);
      const sure = isKey(plain) || (plain.length >= 16 && looksSecret(plain));
      if (sure || looksSecret(plain) || this.#given.some((value) => plain.includes(value))) {
        this.#hide(from, from + part.length, sure);
        if (sure && plain !== part) this.#keep?.(plain);
      }
      from += part.length + 1;
    }
    for (const [name, value] of new URLSearchParams(rest.slice(1).replace(/#.*$/s, '')))
      if (isSecretVariable(name, value)) this.#keep?.(value);
    if (rest !== '') this.#hide(at + address.length - rest.length, at + address.length, false, '');
  }

  #hideIn(at: number, match: string, value: string): void {
    this.#hide(at + match.length - value.length, at + match.length, true);
  }

  #hideEnd(value: string, sure: boolean): void {
    this.#hide(this.#text.length - value.length, this.#text.length, sure);
  }

  /** Text that consists only of references stays visible. */
  #hide(start: number, end: number, sure: boolean, by = MASK): void {
    const value = this.#text.slice(start, end);
    const literal = value.replaceAll(HELD_PART, '');
    if (literal === '' || literal.trim() === '' || (by === MASK && /^(?:Bearer|Basic|Token) $/i.test(literal))) return;
    this.#hidden.push({ start, end, by });
    if (sure && literal === value) this.#keep?.(value);
  }
}

/** Replaces a reference by placeholders, unless it has a default, which may be the secret itself. */
function held(reference: string): string {
  return reference.includes(':-') ? reference : HELD.repeat(reference.length);
}

/** Words of capital and small letters that are longer than usual names. */
function isMixed(word: string): boolean {
  return word.length >= 20 && /[a-z]/.test(word) && /[A-Z]/.test(word);
}
