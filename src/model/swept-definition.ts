import { revealed } from './secret.ts';
import { isKey, isSecretHeader, looksSecret, namesSecret, secretForms } from './secret-words.ts';
import type { Server, TransportSpec } from './server.ts';

/** What may be shown of a server's definition, to anyone, and what of it may be shown nowhere. */
export interface SweptDefinition {
  /** Of a process; null for other servers. References to secrets stay as they are written. */
  readonly command: string | null;
  readonly args: readonly string[];
  /** Of an HTTP server, without user, query and fragment; null for other servers. */
  readonly url: string | null;
  /** The image or container of a Docker server. */
  readonly container: string | null;
  /** Names of variables and headers, each with `[redacted]`. */
  readonly env: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  /** Values for the scrubber, which masks them wherever they show up. */
  readonly secrets: readonly string[];
}

const MASK = '[redacted]';
const REFERENCE = /\$\{[^}]{0,1024}\}/g;
/** Stands for a reference while its surroundings are looked at. */
const HELD = /\uE000\d+\uE001/g;
const ADDRESS = /[a-z][a-z\d+.-]{0,30}:\/\/[^\s"'<>]+/gi;
const ADDRESS_PARTS = /^([^:]+:\/\/)([^/?#]*@)?([^/?#]*)([^?#]*)(.*)$/s;
/** `password: x`, `{"apiKey":"x"}`, `host=h;pwd=x`, `Authorization: Bearer x` */
const ASSIGNED =
  /([\w.-]{1,64})["']?\s{0,16}[:=]\s{0,16}["']?(?:(?:Bearer|Basic|Token)\s{1,16})?(?!\[redacted\])([^\s"',;}&]+)/g;
/** `--token x` in the text of a program. */
const OPTION_VALUE = /(?<![\w-])--?([a-z][\w-]{0,63})\s{1,16}([^\s"'-][^\s"']*)/gi;
const BEARER = /\b(?:Bearer|Basic)\s{1,16}([^\s"',;}]+)/gi;
const WORD = /[^\s,;:="'@/?&(){}[\]|]+/g;
/** A key in base64, in which there may be slashes. */
const BASE64 =
  /(?<![^\s=:"'])(?=[A-Za-z\d+/]*[a-z])(?=[A-Za-z\d+/]*[A-Z])(?=[A-Za-z\d+/]*\d)[A-Za-z\d+][A-Za-z\d+/]{19,4096}={0,2}(?![^\s"',;])/g;
const OPTION = /^(--?[\w-]+)=(.+)$/s;
const VARIABLE = /^([A-Za-z_]\w*)=(.+)$/s;
const HEADER = /^(?:-H|--headers?=)?([\w-]{1,64})\s{0,16}[:=]\s{0,16}(.+)$/s;
const ENV_OPTION = /^(?:-e|--env)$/;
const HEADER_OPTION = /^(?:-H|--headers?)$/;
/** A program in the argument after it may hold anything. */
const SCRIPT_OPTION = /^(?:-[a-z]*[ce]|--eval|--command|\/c)$/i;
const PATH = /^(?:--?[\w-]+=)?(?:\.{0,2}|~)\//;
const PORTS = /^\d+(?::\d+)*$/;
/** Shorter values, such as `1`, are in every text. */
const SHORTEST_VALUE = 4;

const SWEPT = new WeakMap<TransportSpec, SweptDefinition>();

/**
 * The one sweep over every field of a definition that may hold a secret. What is masked in the shown form is masked
 * rather too often: by the place (`--token x`, `-e NAME=x`, `-H …`, user and query of an address) or by its looks. Only
 * values of which place or looks leave no doubt become `secrets`: what merely looks like one may be the name of a file,
 * which no log could do without.
 */
export function sweptDefinition(transport: TransportSpec): SweptDefinition {
  let swept = SWEPT.get(transport);
  if (swept === undefined) SWEPT.set(transport, (swept = sweep(transport)));
  return swept;
}

/** What the scrubber masks of a server: the secrets of its definition, and keys that its description holds. */
export function secretsOf({ transport, description }: Pick<Server, 'transport' | 'description'>): string[] {
  return [...sweptDefinition(transport).secrets, ...(description?.match(WORD) ?? []).filter(isKey)];
}

/** The description of a server, as it may be shown. */
export function sweptDescription(text: string, transport: TransportSpec): string {
  return new SweptText(text, givenTo(transport), null).words(false).toString();
}

/** The secrets among the values of variables and headers. Others, such as `production`, are words of any text. */
function givenTo(transport: TransportSpec): string[] {
  const env = Object.entries('env' in transport ? revealed(transport.env) : {});
  const headers = Object.entries('headers' in transport ? revealed(transport.headers) : {});
  const secret = [
    ...env.filter(([name, value]) => isSecretVariable(name, value)),
    ...headers.filter(([name]) => isSecretHeader(name)),
  ];
  return secret.map(([, value]) => value).filter(({ length }) => length >= SHORTEST_VALUE);
}

function sweep(transport: TransportSpec): SweptDefinition {
  const env = 'env' in transport ? revealed(transport.env) : {};
  const headers = 'headers' in transport ? revealed(transport.headers) : {};
  const given = givenTo(transport);
  const secrets = new Set<string>();
  const keep = (value: string): void => {
    for (const form of secretForms(value)) secrets.add(form);
  };
  for (const [name, value] of Object.entries(env)) if (isSecretVariable(name, value)) keep(value);
  for (const [name, value] of Object.entries(headers)) if (isSecretHeader(name)) keep(value);
  const look = (text: string): unknown => new SweptText(text, given, keep).words(false);
  const lookAt = (args: readonly string[]): void => {
    for (const [i, arg] of args.entries()) new SweptText(arg, given, keep).argument(args[i - 1] ?? '');
  };
  const shown = (written: string): SweptText => new SweptText(written, given, null);
  let command: string | null = null;
  let args: string[] = [];
  let url: string | null = null;
  let container: string | null = null;
  if (transport.type === 'stdio') {
    for (const place of [transport.command, transport.cwd, transport.ssh?.identityFile ?? '']) look(place);
    lookAt(transport.args);
    const written = transport.written ?? transport;
    command = shown(written.command).words(false).toString();
    args = written.args.map((arg, i) =>
      shown(arg)
        .argument(written.args[i - 1] ?? '')
        .toString(),
    );
  } else if (transport.type === 'docker') {
    const { target, engine } = transport;
    if (engine !== null) look(engine);
    if ('image' in target) look(target.image.name);
    container = 'container' in target ? target.container : shown(target.image.name).words(false).toString();
    if ('image' in target) {
      for (const [name, value] of Object.entries(target.image.labels)) if (isSecretVariable(name, value)) keep(value);
      for (const place of target.image.volumes) look(place);
      lookAt([...(target.image.entrypoint ?? []), ...target.image.command]);
    }
  } else if (transport.type !== 'memory') {
    look(transport.url);
    url = shown(transport.writtenUrl ?? transport.url)
      .words(false)
      .toString();
    if (transport.tls.key !== undefined) keep(transport.tls.key.reveal());
  }
  return {
    command,
    args,
    url,
    container,
    env: masked(env),
    headers: masked(headers),
    secrets: [...secrets].sort((a, b) => b.length - a.length),
  };
}

function isSecretVariable(name: string, value: string): boolean {
  return namesSecret(name) || looksSecret(value) || isKey(value);
}

function masked(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.keys(values).map((name) => [name, MASK]));
}

/** One text of a definition, of which parts are hidden. */
class SweptText {
  readonly #text: string;
  readonly #references: string[] = [];
  readonly #given: readonly string[];
  readonly #keep: ((value: string) => void) | null;
  readonly #hidden: { readonly start: number; readonly end: number; readonly by: string }[] = [];

  /** `keep` gets the secrets of a text as it is used; null for one as it is written, in which references stay. */
  constructor(text: string, given: readonly string[], keep: ((value: string) => void) | null) {
    const hold = (reference: string): string => `\uE000${this.#references.push(reference) - 1}\uE001`;
    this.#text = keep === null ? text.replaceAll(REFERENCE, hold) : text;
    this.#given = given;
    this.#keep = keep;
  }

  /** As an argument of a command, behind the argument `before`. */
  argument(before: string): this {
    const text = this.#text;
    const name = /^--?([\w-]+)$/.exec(before)?.[1];
    const [, option = '', value = ''] = OPTION.exec(text) ?? [];
    // What begins like a short option is none where a value has to come.
    const isValue = !text.startsWith('--') && !/^-\w$/.test(text);
    if (name !== undefined && namesSecret(name) && isValue) this.#hide(0, text.length, true);
    else if (namesSecret(option.replace(/^-+/, ''))) this.#hideEnd(value, true);
    else if (ENV_OPTION.test(before) && VARIABLE.test(text)) this.#variable(text, true);
    else if (option === '--env') this.#variable(value, true);
    else if (HEADER_OPTION.test(before) || /^(?:-H|--headers?=)./s.test(text)) this.#header();
    else if (SCRIPT_OPTION.test(before) && /\s/.test(text)) {
      this.words(true);
      this.#hide(0, text.length, false);
    } else if (/^(?:-u|--user)$/.test(before) && text.includes(':')) {
      this.#hideEnd(text.slice(text.indexOf(':') + 1), true);
      this.#hide(0, text.length, false);
    } else if (before === '-p' && !text.startsWith('-') && !PORTS.test(text)) this.#hide(0, text.length, isKey(text));
    else if (/^-p./s.test(text) && !PORTS.test(text.slice(2))) this.#hideEnd(text.slice(2), isKey(text.slice(2)));
    else this.#variable(text, false);
    return this.words(!PATH.test(text));
  }

  /** As a text in which there may be addresses, assignments and keys; and words that merely look like keys. */
  words(lookingSo: boolean): this {
    for (const { 0: address, index } of this.#text.matchAll(ADDRESS)) this.#address(address, index);
    for (const pattern of [ASSIGNED, OPTION_VALUE]) {
      for (const match of this.#text.matchAll(pattern)) {
        if (namesSecret(match[1]!)) this.#hideIn(match.index, match[0], match[2]!, true);
      }
    }
    for (const match of this.#text.matchAll(BEARER)) this.#hideIn(match.index, match[0], match[1]!, true);
    for (const { 0: run, index } of this.#text.matchAll(WORD)) {
      const word = run.endsWith('.') ? run.slice(0, -1) : run;
      const sure = isKey(word);
      if (sure || (lookingSo && (looksSecret(word) || isMixed(word)))) this.#hide(index, index + word.length, sure);
    }
    if (lookingSo)
      for (const { 0: key, index } of this.#text.matchAll(BASE64)) this.#hide(index, index + key.length, false);
    for (const value of this.#given) {
      for (let at = this.#text.indexOf(value); at >= 0; at = this.#text.indexOf(value, at + value.length)) {
        this.#hide(at, at + value.length, false);
      }
    }
    return this;
  }

  toString(): string {
    let shown = '';
    let from = 0;
    for (const { start, end, by } of this.#hidden.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
      if (start >= from) shown += this.#text.slice(from, start) + by;
      from = Math.max(from, end);
    }
    return (shown + this.#text.slice(from)).replaceAll(HELD, (held) => this.#references[Number(held.slice(1, -1))]!);
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
    const [, scheme = '', user = '', host = '', path = '', rest = ''] = ADDRESS_PARTS.exec(address) ?? [];
    const start = at + scheme.length;
    if (user !== '') {
      const password = user.slice(user.indexOf(':') + 1, -1);
      this.#hide(start + user.indexOf(password), start + user.length - 1, true);
      this.#hide(start, start + user.length - 1, false);
    }
    let from = start + user.length + host.length;
    for (const part of path.split('/')) {
      const plain = decoded(part);
      const sure = isKey(plain) || (plain.length >= 16 && looksSecret(plain));
      if (sure || looksSecret(plain) || this.#given.some((value) => plain.includes(value))) {
        this.#hide(from, from + part.length, sure);
        if (sure && plain !== part) this.#keep?.(plain);
      }
      from += part.length + 1;
    }
    for (const [name, value] of new URLSearchParams(rest.slice(1)))
      if (isSecretVariable(name, value)) this.#keep?.(value);
    if (rest !== '') this.#hide(at + address.length - rest.length, at + address.length, false, '');
  }

  #hideIn(at: number, match: string, value: string, sure: boolean): void {
    this.#hide(at + match.length - value.length, at + match.length, sure);
  }

  #hideEnd(value: string, sure: boolean): void {
    this.#hide(this.#text.length - value.length, this.#text.length, sure);
  }

  /** References stay, where they are all there is. */
  #hide(start: number, end: number, sure: boolean, by = MASK): void {
    const value = this.#text.slice(start, end);
    const literal = value.replaceAll(HELD, '');
    if (literal === '' || literal.trim() === '' || (by === MASK && /^(?:Bearer|Basic|Token) $/i.test(literal))) return;
    this.#hidden.push({ start, end, by });
    if (sure) this.#keep?.(value);
  }
}

/** Words of capital and small letters that are longer than names are. */
function isMixed(word: string): boolean {
  return word.length >= 20 && /[a-z]/.test(word) && /[A-Z]/.test(word);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
