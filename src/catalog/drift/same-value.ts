import { isObject } from '../../model/json-object.ts';
import { canonicalExact } from '../../protocol/canonical.ts';

/** Values nested deeper count as different, to bound the recursion. */
const MAX_DEPTH = 128;

/** Whether two parsed JSON values are equal, in any order of members; false when the budget is exhausted. */
export function sameValue(a: unknown, b: unknown, depth = 0, budget: { left: number } | null = null): boolean {
  if (budget !== null) {
    if (budget.left === 0) return false;
    budget.left--;
  }
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null || depth > MAX_DEPTH) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((element, i) => sameValue(element, b[i], depth + 1, budget));
  }
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every(
    (key) =>
      Object.hasOwn(b, key) &&
      sameValue((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key], depth + 1, budget),
  );
}

/** A text that is the same for equal values, to be used as a key. */
export function valueText(value: unknown): string {
  return (
    JSON.stringify(value, (_key, member: unknown) => {
      if (!isObject(member)) return member;
      return Object.fromEntries(Object.entries(member).sort(([x], [y]) => (x < y ? -1 : 1)));
    }) ?? ''
  );
}

/**
 * Whether two JSON texts have the same value (S4.19). Order of members, white space and spelling are ignored; digits beyond a
 * double are not. An invalid text equals nothing, a text with duplicate members only itself.
 */
export function sameJson(a: string, b: string): boolean {
  if (!isJson(a) || !isJson(b)) return false;
  if (a === b) return true;
  const text = canonicalExact(Buffer.from(a));
  return text !== null && text === canonicalExact(Buffer.from(b));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
