import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const MODULE = resolve(import.meta.dirname, '../../bin/young-generation.js');
/** Runs in a process of its own; prints the size of each half of the young generation, in MiB. */
const PROGRAM = `
import { getHeapSpaceStatistics } from 'node:v8';
import { boundYoungGeneration } from ${JSON.stringify(MODULE)};

const half = () => {
  const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  return Math.round((young.space_used_size + young.space_available_size) / 1024 / 1024);
};
const sizes = [half()];
boundYoungGeneration(8);
sizes.push(half());
// As V8 does by itself where little is allocated for a while.
gc({ type: 'major', flavor: 'last-resort', execution: 'sync' });
sizes.push(half());
const busy = setInterval(() => {
  for (const end = performance.now() + 8; performance.now() < end; ) Array.from({ length: 100 }, (_, i) => ({ i }));
  if (half() < 8) return;
  clearInterval(busy);
  console.log(JSON.stringify([...sizes, half()]));
}, 10);
`;

test('the young generation has its configured size, and gets it back after V8 has shrunk it in an idle process', async () => {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ['--expose-gc', '--input-type=module', '--eval', PROGRAM]);
  assert.deepEqual(JSON.parse(stdout), [1, 8, 1, 8]);
});
