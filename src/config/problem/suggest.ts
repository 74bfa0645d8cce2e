/** Longer words are no misspelt names. */
const LONGEST = 80;

/** The candidate that was most likely meant, or null when none is near. Case and `-`/`_` count for nothing. */
export function suggest(word: string, candidates: Iterable<string>): string | null {
  if (word.length > LONGEST) return null;
  const wanted = fold(word);
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 4)) + 1;
  for (const candidate of candidates) {
    if (candidate.length > LONGEST) continue;
    const distance = editDistance(wanted, fold(candidate), bestDistance);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `did you mean "x"?` or the alternative text. */
export function didYouMean(word: string, candidates: Iterable<string>, otherwise: string): string {
  const near = suggest(word, candidates);
  return near === null ? otherwise : `did you mean ${JSON.stringify(near)}?`;
}

function fold(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, '');
}

const rows = [0, 1, 2].map(() => new Uint8Array(LONGEST + 1));

/**
 * Optimal string alignment: a transposition of neighbours counts as one edit. What is `limit` or more is `limit`: only
 * cells near the diagonal are looked at, as one mistake in a file of thousands of names must not cost seconds.
 */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let [beforeLast, last, row] = rows as [Uint8Array, Uint8Array, Uint8Array];
  for (let j = 0; j <= b.length; j++) last[j] = Math.min(j, limit);
  for (let i = 1; i <= a.length; i++) {
    const from = Math.max(1, i - limit);
    const to = Math.min(b.length, i + limit);
    row[from - 1] = from === 1 ? Math.min(i, limit) : limit;
    let least = row[from - 1]!;
    for (let j = from; j <= to; j++) {
      const same = a.charCodeAt(i - 1) === b.charCodeAt(j - 1);
      const above = j < i + limit ? last[j]! : limit;
      let cost = Math.min(above + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1), limit);
      if (i > 1 && j > 1 && a.charCodeAt(i - 1) === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === b.charCodeAt(j - 1))
        cost = Math.min(cost, beforeLast[j - 2]! + 1);
      row[j] = cost;
      if (cost < least) least = cost;
    }
    if (least >= limit) return limit;
    [beforeLast, last, row] = [last, row, beforeLast];
  }
  return Math.min(last[b.length]!, limit);
}
