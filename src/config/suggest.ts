/** The candidate that was most likely meant, or null when none is near. Case and `-`/`_` count for nothing. */
export function suggest(word: string, candidates: Iterable<string>): string | null {
  if (word.length > 80) return null;
  const wanted = fold(word);
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 4)) + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance + 2) continue;
    const distance = editDistance(wanted, fold(candidate));
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

/** Optimal string alignment: a transposition of neighbours counts as one edit. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, substitution);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, beforeLast[j - 2]! + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}
