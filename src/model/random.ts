import { randomBytes } from 'node:crypto';

/** Randomness as a dependency. `unit` is in [0, 1); `hex` gives 2·bytes lower-case digits of a CSPRNG. */
export interface Random {
  unit(): number;
  hex(bytes: number): string;
}

export const systemRandom: Random = {
  unit: () => Math.random(),
  hex: (bytes) => randomBytes(bytes).toString('hex'),
};
