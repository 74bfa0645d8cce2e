import { isTooDeep } from '../../model/json-depth.ts';

/** JSON whose numbers are kept as they were written. */
export type ExactJson = null | boolean | string | RawNumber | readonly ExactJson[] | ExactObject;
export type ExactObject = { readonly [member: string]: ExactJson | undefined };

interface RawNumber {
  readonly rawJSON: string;
}

/** Members of `JSON` that the compiler does not know yet (ECMAScript 2026, JSON.parse source text access). */
const exact = JSON as unknown as {
  parse(
    text: string,
    revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): ExactJson;
  rawJSON(text: string): RawNumber;
  isRawJSON(value: unknown): value is RawNumber;
};

/** Functions on values recurse for each level. */
const MAX_DEPTH = 1_000;

/** Throws SyntaxError. `JSON.stringify` writes each number as in the text. */
export function parseExact(text: string): ExactJson {
  if (isTooDeep(text, MAX_DEPTH)) throw new SyntaxError(`nested more than ${MAX_DEPTH} levels deep`);
  return exact.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? exact.rawJSON(source) : value,
  );
}

export function isExactObject(value: ExactJson | undefined): value is ExactObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !exact.isRawJSON(value);
}

/** The member of an object; undefined if there is none. */
export function memberOf(value: ExactJson | undefined, ...path: readonly string[]): ExactJson | undefined {
  let found = value;
  for (const name of path) found = isExactObject(found) ? found[name] : undefined;
  return found;
}

export function textOf(value: ExactJson | undefined): string | null {
  return typeof value === 'string' ? value : null;
}
