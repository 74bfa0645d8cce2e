/** Deeper values are taken to differ; nobody writes such schemas, and recursion has to end. */
const MAX_DEPTH = 128;

/**
 * Whether two parsed JSON values are the same; the order of members does not matter. Makes nothing, stops early. Values are taken
 * to differ when the budget is spent.
 */
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
      if (typeof member !== 'object' || member === null || Array.isArray(member)) return member;
      return Object.entries(member).sort(([x], [y]) => (x < y ? -1 : 1));
    }) ?? ''
  );
}
