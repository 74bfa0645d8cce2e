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

/** A digit string that a double holds exactly; longer ones are compared as they are written. */
const SAFE_DIGITS = 15;

/**
 * Whether two JSON texts say the same (S4.19): order of members, white space and spelling do not count, digits beyond a
 * double do. An unreadable text equals nothing.
 */
export function sameJson(a: string, b: string): boolean {
  const [left, right] = [comparable(a), comparable(b)];
  return left !== null && left === right;
}

/** Equal texts for equal values; null for what cannot be read. */
export function comparable(json: string): string | null {
  try {
    return JSON.stringify(JSON.parse(json, exactly));
  } catch {
    return null;
  }
}

/** Applied from the leaves up: members sorted, numbers that would be rounded kept as their digits. */
function exactly(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (typeof value === 'number') return exactNumber(value, context?.source ?? String(value));
  if (!isObject(value)) return value;
  // A list of pairs, because member names such as "__proto__" and "1" have a life of their own in objects.
  const pairs = Object.entries(value).sort(([x], [y]) => (x < y ? -1 : 1));
  return { members: pairs };
}

function exactNumber(value: number, lexeme: string): unknown {
  const digits = lexeme
    .replace(/[eE].*$/, '')
    .replace(/[^0-9]/g, '')
    .replace(/^0+/, '');
  if (Number.isFinite(value) && digits.length <= SAFE_DIGITS) return value === 0 ? 0 : value;
  return { digits: lexeme };
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
