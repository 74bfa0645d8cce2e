import { TRUTH_LIMITS, type TruthWrite } from './truth.ts';

/** What is beyond the bounds is the caller's mistake, and refused before it by whoever lets users write. */
export function checkBounds(writes: readonly TruthWrite[]): void {
  const { keyBytes, valueBytes, writes: most, changeBytes } = TRUTH_LIMITS;
  if (writes.length > most) throw new RangeError(`a change has at most ${most} writes`);
  let bytes = 0;
  for (const write of writes) {
    const { collection, key } = write;
    const value = write.kind === 'put' ? write.value : '';
    if (
      collection === '' ||
      key === '' ||
      Buffer.byteLength(key) > keyBytes ||
      Buffer.byteLength(collection) > keyBytes
    )
      throw new RangeError(`a key has 1 to ${keyBytes} bytes`);
    for (const text of [collection, key, value]) {
      if (!text.isWellFormed() || text.includes('\0')) throw new RangeError('text has no NUL and no half characters');
    }
    const length = Buffer.byteLength(value);
    if (length > valueBytes) throw new RangeError(`a record has at most ${valueBytes} bytes`);
    bytes += length;
  }
  if (bytes > changeBytes) throw new RangeError(`a change has at most ${changeBytes} bytes`);
}
