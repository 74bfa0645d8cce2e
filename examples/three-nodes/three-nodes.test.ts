import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { NatsServer } from '../../test/support/nats-server.ts';

const ROOT = resolve(import.meta.dirname, '../..');

test('check:C9 the example runs as its README describes: each request of a session at the next of three nodes', async () => {
  await using nats = await NatsServer.start();
  const { stdout } = await promisify(execFile)(process.execPath, ['examples/three-nodes/main.ts'], {
    cwd: ROOT,
    env: { ...process.env, NATS_URL: nats.url },
    timeout: 150_000,
  });
  const counts = [...stdout.matchAll(/^thoughts so far: (\d+)$/gm)].map(([, count]) => Number(count));
  assert.deepEqual(counts, [1, 2, 3, 4, 5, 6]);
  const each = /^requests at each node: (\d+), (\d+), (\d+)$/m.exec(stdout)!.slice(1).map(Number);
  assert.ok(Math.min(...each) >= 2, stdout);
});
