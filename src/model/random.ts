import { randomFillSync } from 'node:crypto';

/** `unit` is in [0, 1). A CSPRNG makes `hex`, which has 2·bytes digits, and `below(n)`, a number below n ≤ 2^32. */
export interface Random {
  unit(): number;
  hex(bytes: number): string;
  below(n: number): number;
}

/** Random bytes for many ids are drawn at once, because a draw costs more than its bytes. Each byte is used once. */
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
  below: (n) => {
    const at = take(4);
    const drawn = pool.readUInt32LE(at);
    pool.writeUInt32LE(0, at);
    return Math.floor((drawn * n) / 2 ** 32);
  },
};
