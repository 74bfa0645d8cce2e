import { CommandError, EXIT } from '../exit-code.ts';

/** How the schema wants a parameter written; anything else is taken as text unless it is JSON. */
export type ParameterTypes = Readonly<Record<string, { readonly type?: unknown }>>;

/**
 * The JSON text of a tool's arguments from `key=value` words. A value goes in as written where the schema asks for a
 * number, boolean, object or array and it is one (so `id=12345678901234567890` keeps every digit), and as a string
 * where the schema says string. `key:=json` forces JSON, `a.b=1` is not a path: keys are keys.
 */
export function argumentsFromWords(words: readonly string[], types: ParameterTypes): string {
  const members = new Map<string, string>();
  for (const word of words) {
    const match = /^([^=:]+)(:?=)([\s\S]*)$/.exec(word);
    if (match === null) {
      throw new CommandError(EXIT.usage, `argument "${word}" is not key=value; write for example: city=Berlin`);
    }
    const [, key = '', operator, value = ''] = match;
    if (members.has(key)) throw new CommandError(EXIT.usage, `argument "${key}" is given twice`);
    members.set(key, operator === ':=' ? jsonOrFail(key, value) : literal(value, types[key]?.type));
  }
  return `{${[...members].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`;
}

function literal(value: string, type: unknown): string {
  if (type === 'string') return JSON.stringify(value);
  return isJson(value) ? value : JSON.stringify(value);
}

function jsonOrFail(key: string, value: string): string {
  if (!isJson(value)) throw new CommandError(EXIT.usage, `the value of "${key}" is not JSON: ${value}`);
  return value;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
