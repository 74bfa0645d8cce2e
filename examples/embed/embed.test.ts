import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const ROOT = resolve(import.meta.dirname, '../..');

test('the example runs as its README describes, and ends by itself', async () => {
  const args = ['--conditions=trunkline-source', 'examples/embed/main.ts'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, timeout: 60_000 });
  assert.match(stdout, /^greeter: running, 1 tools$/m);
  assert.match(stdout, /^everything: running, \d+ tools$/m);
  assert.match(stdout, /^Hello from inside the program!$/m);
  assert.match(stdout, /^Echo: one gateway, many servers$/m);
});
