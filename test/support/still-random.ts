import type { Random } from '../../src/model/random.ts';
import { Seeded } from '../chaos/seeded.ts';

let made = 0;

/** Random without jitter. Ids are scattered like those of the system, differ per instance, and are the same in every run. */
export function stillRandom(): Random {
  const ids = new Seeded(++made);
  return {
    unit: () => 0,
    hex: (bytes) => '0'.repeat(2 * bytes),
    below: (n) => ids.below(n),
  };
}
