/** Splits a list into parts of at most `size` items. */
export function* chunks<T>(list: readonly T[], size: number): Generator<readonly T[], void> {
  for (let at = 0; at < list.length; at += size) yield list.slice(at, at + size);
}
