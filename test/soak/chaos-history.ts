import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Run } from './proof.ts';

/** Writes what happened in a part of a chaos run, so that what it found can be explained afterwards. */
export function keepHistory(seed: number, history: object, say: Run['say']): void {
  const file = join(process.env['TRUNKLINE_PROVE_DIR'] ?? tmpdir(), `trunkline-cluster-chaos-${seed}.json`);
  writeFileSync(file, JSON.stringify(history));
  say(`the whole history is in ${file}`);
}
