/**
 * How much of the memory that this process may use is taken (F40): less than 80 %, from 80 %, from 90 %, from 95 %. With
 * `short` no session is opened, with `scarce` no large body is taken in and caches are emptied, with `spent` no call is begun.
 */
export type MemoryLevel = 'ample' | 'short' | 'scarce' | 'spent';

export function memoryLevel(share: number): MemoryLevel {
  if (share < 0.8) return 'ample';
  if (share < 0.9) return 'short';
  return share < 0.95 ? 'scarce' : 'spent';
}
