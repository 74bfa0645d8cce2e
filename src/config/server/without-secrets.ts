import { hash } from 'node:crypto';
import { isObject } from '../../model/json-object.ts';
import {
  isSecretAssignment,
  isSecretHeader,
  isSecretVariable,
  namesSecret,
  SHORTEST_SECRET,
  userInfo,
} from '../../model/secret.ts';

const VARIABLES = /^(?:env|environment|envs)$/;
const HEADERS = /^(?:http_)?headers$/;
const AUTH = /^(?:auth|oauth)$/;
const SECRET_OF_AUTH = /secret$|^privateKey$|^subjectToken$/i;
const WORDS = /^(?:args|command)$/;
const ADDRESSES = /^(?:url|httpUrl|serverUrl|uri)$/;

/** Replaces values that look like secrets by references to secrets, and adds the values to `secrets`. */
export function withoutSecrets<T extends object>(server: string, definition: T, secrets: Map<string, string>): T {
  const referring = (name: string, value: string): string => {
    const [, scheme = '', bare = value] = /^(Bearer |Basic |Token )(.+)$/is.exec(value) ?? [];
    let secret = secretNameOf(server, name);
    for (let i = 2; secrets.has(secret) && secrets.get(secret) !== bare; i++) {
      secret = secretNameOf(server, `${name}-${i}`);
    }
    secrets.set(secret, bare);
    return `${scheme}\${secret:${secret}}`;
  };
  const moved = (name: string, value: unknown, isSecret: (name: string, value: string) => boolean): unknown =>
    isPlain(value) && isSecret(name, value) ? referring(name, value) : value;
  const word = (value: unknown, before: unknown): unknown => {
    if (typeof value !== 'string') return value;
    let text = value;
    for (const [name, lead, secret] of namedSecrets(value, typeof before === 'string' ? before : '')) {
      if (isPlain(secret)) text = text.replace(lead + secret, () => lead + referring(name, secret));
    }
    return text;
  };
  const entries = Object.entries(definition).map(([key, value]): [string, unknown] => {
    if (WORDS.test(key) && Array.isArray(value)) return [key, value.map((one, at) => word(one, value[at - 1]))];
    if (ADDRESSES.test(key)) return [key, word(value, '')];
    const isSecret = VARIABLES.test(key)
      ? isSecretVariable
      : HEADERS.test(key)
        ? isSecretHeader
        : AUTH.test(key)
          ? (name: string) => SECRET_OF_AUTH.test(name)
          : null;
    if (isSecret === null || !isObject(value)) return [key, value];
    const all = Object.entries(value).map(([name, one]): [string, unknown] => [name, moved(name, one, isSecret)]);
    return [key, Object.fromEntries(all)];
  });
  return Object.fromEntries(entries) as T;
}

function isPlain(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('${') && value.length >= SHORTEST_SECRET;
}

/**
 * The secrets in an argument or address that have a name there: values of options, variables, headers and parameters, and the
 * password of an address. `lead`: the text before the secret. `before`: the previous argument.
 */
function namedSecrets(text: string, before: string): (readonly [name: string, lead: string, secret: string])[] {
  const option = /^--?([\w-]+)$/.exec(before)?.[1] ?? '';
  if (namesSecret(option) && !text.startsWith('-')) return [[option, '', text]];
  const [, assigned = '', name = '', value = ''] = /^((?:-e|--env=|--?)?([A-Za-z_][\w-]*)=)(.+)$/s.exec(text) ?? [];
  if (isSecretAssignment(name, value)) return [[name, assigned, value]];
  const isHeader = /^(?:H|headers?)$/.test(option) || /^(?:-H|--headers?=)./.test(text);
  const header = isHeader ? /^((?:-H|--headers?=)?([\w-]+)\s{0,16}[:=]\s{0,16})(.+)$/s.exec(text) : null;
  if (header !== null && isSecretHeader(header[2]!)) return [[header[2]!, header[1]!, header[3]!]];
  const parameters = [...text.matchAll(/[?&]([\w.-]{1,64})=([^&#\s]+)/g)]
    .filter(([, parameter = '', given = '']) => isSecretAssignment(parameter, given))
    .map(([, parameter = '', given = '']) => [parameter, `${parameter}=`, given] as const);
  const { user, passwords } = userInfo(/[a-z][a-z\d+.-]{0,30}:\/\/\S+/i.exec(text)?.[0] ?? '');
  const [password] = passwords;
  if (password === undefined) return parameters;
  return [...parameters, ['password', user.slice(0, user.indexOf(':') + 1), password]];
}

/** Name of the secret for a variable, header or input of this name; a digest replaces the end of one that is too long. */
export function secretNameOf(server: string, name: string): string {
  const full = `${server}-${name.toLowerCase()}`.replaceAll(/[^A-Za-z0-9_.-]/g, '-');
  return full.length <= 128 ? full : `${full.slice(0, 115)}-${hash('sha256', full).slice(0, 12)}`;
}
