import { randomFillSync } from 'node:crypto';

/**
 * Randomness as a dependency. `unit` is in [0, 1); `hex` gives 2·bytes lower-case digits of a CSPRNG; `id` a number of 45
 * random bits of it for a request: below 10^14, and its low 32 bits are a positive int32 (decision 062).
 */
export interface Random {
  unit(): number;
  hex(bytes: number): string;
  id(): number;
}

/** Random bytes are fetched for many ids at once: asking for them costs more than they do. Each is used once. */
const pool = Buffer.alloc(4096);
let used = pool.length;

function take(bytes: number): number {
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return used - bytes;
}

export const systemRandom: Random = {
  unit: () => Math.random(),
  hex: (bytes) => {
    if (bytes > pool.length) return randomFillSync(Buffer.alloc(bytes)).toString('hex');
    const at = take(bytes);
    const text = pool.toString('hex', at, at + bytes);
    pool.fill(0, at, at + bytes);
    return text;
  },
  id: () => {
    for (;;) {
      const at = take(6);
      const low = pool.readUInt32LE(at) & 0x7fff_ffff;
      const high = pool.readUInt16LE(at + 4) & 0x3fff;
      pool.writeUIntLE(0, at, 6);
      if (low !== 0) return high * 2 ** 32 + low;
    }
  },
};
