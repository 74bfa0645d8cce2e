/** A digit string that a double holds exactly; longer ones are compared as they are written. */
const SAFE_DIGITS = 15;

/**
 * Whether two JSON texts say the same: the order of members, white space and the spelling of strings and numbers do not
 * matter, the order of elements does (S4.19). Numbers beyond what a double holds are compared by their digits, so that
 * no change hides in rounding. A text that is no JSON, or too deeply nested to be read, is the same as nothing, not
 * even itself: nobody can say that it did not change.
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
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
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
