/** As in `1 session`, `2 sessions`. */
export function counted(count: number, word: string): string {
  return `${count} ${count === 1 ? word : `${word}s`}`;
}

/** As in `no difference`, `2 differences`. */
export function countedOrNo(count: number, word: string): string {
  return count === 0 ? `no ${word}` : counted(count, word);
}
