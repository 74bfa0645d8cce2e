import { canonicalExact } from '../../protocol/canonical.ts';

/** Deeper values are taken to differ; schemas are not so deep, and recursion has to end. */
const MAX_DEPTH = 128;

/** Whether two parsed JSON values are equal, whatever the order of members; false when the budget is spent. */
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

/** Equal texts for the same values, for tables of them. */
export function valueText(value: unknown): string {
  return (
    JSON.stringify(value, (_key, member: unknown) => {
      if (!isObject(member)) return member;
      return Object.entries(member).sort(([x], [y]) => (x < y ? -1 : 1));
    }) ?? ''
  );
}

/**
 * Whether two JSON texts say the same (S4.19): order of members, white space and spelling do not count, digits beyond a
 * double do. An unreadable text equals nothing, one with a member twice only itself.
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

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
