import type { WordRun } from '../../model/drift.ts';

/** Words of each side that are compared one by one; a longer middle part is shown as replaced. */
const MAX_WORDS = 400;
/** Characters of each text that are compared; a note replaces the rest. */
const MAX_CHARACTERS = 16_384;

/** A change word by word, bounded in cost. White space belongs to the word before it, so that the runs add up to both texts. */
export function wordDiff(before: string, after: string): readonly WordRun[] {
  const [old, now] = [wordsOf(before), wordsOf(after)];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const runs = new Runs();
  runs.add('same', old.slice(0, head));
  compare(old.slice(head, old.length - tail), now.slice(head, now.length - tail), runs);
  runs.add('same', old.slice(old.length - tail));
  return runs.list;
}

class Runs {
  readonly list: { kind: WordRun['kind']; text: string }[] = [];

  add(kind: WordRun['kind'], words: readonly string[]): void {
    if (words.length === 0) return;
    const last = this.list.at(-1);
    if (last?.kind === kind) last.text += words.join('');
    else this.list.push({ kind, text: words.join('') });
  }
}

/** Compares by the longest common subsequence of words, up to `MAX_WORDS`. */
function compare(old: readonly string[], now: readonly string[], runs: Runs): void {
  if (old.length > MAX_WORDS || now.length > MAX_WORDS || old.length === 0 || now.length === 0) {
    runs.add('removed', old);
    runs.add('added', now);
    return;
  }
  const width = now.length + 1;
  const common = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      const down = common[(i + 1) * width + j]!;
      const right = common[i * width + j + 1]!;
      common[i * width + j] = old[i] === now[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(down, right);
    }
  }
  let [i, j] = [0, 0];
  while (i < old.length && j < now.length) {
    if (old[i] === now[j]) {
      runs.add('same', [old[i]!]);
      i++;
      j++;
    } else if (common[(i + 1) * width + j]! >= common[i * width + j + 1]!) runs.add('removed', [old[i++]!]);
    else runs.add('added', [now[j++]!]);
  }
  runs.add('removed', old.slice(i));
  runs.add('added', now.slice(j));
}

/** Words with the white space after them; white space at the beginning is a word. */
const WORDS = /[^\x00-\x20\xa0]+[\x00-\x20\xa0]*|^[\x00-\x20\xa0]+/g;

function wordsOf(text: string): readonly string[] {
  const words: string[] = text.slice(0, MAX_CHARACTERS).match(WORDS) ?? [];
  if (text.length <= MAX_CHARACTERS) return words;
  const more = text.length - MAX_CHARACTERS;
  return [...words, ` … (${more} more characters: ${fold(text, MAX_CHARACTERS)})`];
}

/** A checksum of the rest, so that texts that differ only there do not look the same. */
function fold(text: string, from: number): string {
  let sum = 0;
  for (let at = from; at < text.length; at++) sum = (Math.imul(sum, 31) + text.charCodeAt(at)) | 0;
  return (sum >>> 0).toString(16);
}
