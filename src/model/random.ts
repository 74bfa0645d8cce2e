import { randomFillSync } from 'node:crypto';

/** Randomness as a dependency. `unit` is in [0, 1); `hex` gives 2·bytes lower-case digits of a CSPRNG. */
export interface Random {
  unit(): number;
  hex(bytes: number): string;
}

/** Random bytes are fetched for many ids at once: asking for them costs more than they do. Each is used once. */
const pool = Buffer.alloc(4096);
let used = pool.length;

export const systemRandom: Random = {
  unit: () => Math.random(),
  hex: (bytes) => {
    if (bytes > pool.length) return randomFillSync(Buffer.alloc(bytes)).toString('hex');
    if (used + bytes > pool.length) {
      randomFillSync(pool);
      used = 0;
    }
    const text = pool.toString('hex', used, used + bytes);
    pool.fill(0, used, used + bytes);
    used += bytes;
    return text;
  },
};
