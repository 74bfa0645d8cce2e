import { globSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Proof } from './proof.ts';
import { repeat } from './repetitions.ts';

const FOLDER = resolve(import.meta.dirname, '../attacks');
const ROUNDS = 5;

/** Here each answer to an attack must arrive within 3 s, which the test suite, on a busy machine, does not require. */
export const ATTACKS: Proof = {
  id: 'attacks',
  group: 'faults',
  claim: `Every attack of the tables (HTTP, JSON-RPC, MCP, sessions, principals, control, configuration, bus) fails, ${ROUNDS} times, and each POST is answered within 3 s`,
  shortened: `${ROUNDS - 1} of ${ROUNDS} repetitions`,
  run: (run) => {
    const files = globSync('*.test.ts', { cwd: FOLDER }).map((file) => resolve(FOLDER, file));
    return repeat({ id: 'attacks', files, named: /^(?!.*\.test\.ts$)/, rounds: run.short ? 1 : ROUNDS }, run);
  },
};
