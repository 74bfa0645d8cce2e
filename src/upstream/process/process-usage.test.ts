import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ProcessUsages } from './process-usage.ts';

test('memory and processor time of a process with its children, and nothing of one that has ended', {
  skip: process.platform !== 'linux',
}, async () => {
  const child = spawn('sh', ['-c', 'while :; do :; done & while :; do :; done & wait'], { detached: true });
  const pid = child.pid!;
  const until = performance.now() + 20_000;
  const usages = new ProcessUsages();
  const of = async () => (await usages.of(new Set([pid]))).get(pid);
  try {
    let usage = await of();
    while ((usage?.processes !== 3 || usage.cpuMs < 100) && performance.now() < until) {
      await sleep(20);
      usage = await of();
    }
    assert.ok(usage!.processes === 3 && usage!.memoryBytes > 100_000 && usage!.cpuMs >= 100, JSON.stringify(usage));
    assert.ok(usage!.memoryBytes < 100e6, JSON.stringify(usage));
  } finally {
    process.kill(-pid, 'SIGKILL');
    await once(child, 'exit');
  }
  while ((await of()) !== undefined && performance.now() < until) await sleep(20);
  assert.equal(await of(), undefined);
});
