import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharedLogContract } from '../../../test/contracts/shared-log.contract.ts';
import { MemorySharedLog } from './memory-shared-log.ts';

sharedLogContract({
  name: 'memory',
  async start() {
    const log = new MemorySharedLog();
    return { nodes: [log, log], async dispose() {} };
  },
});

test('above 64 MiB the log drops the oldest entries of all names', async () => {
  const log = new MemorySharedLog();
  const entry = Buffer.alloc(1_000_000);
  for (let at = 0; at < 70; at++) log.append(`g${at}.a`, entry);
  const kept: number[] = [];
  for (let at = 0; at < 70; at++) if ((await log.read(`g${at}.a`)).position > 0) kept.push(at);
  assert.deepEqual([kept[0], kept.at(-1), kept.length], [3, 69, 67]);
  assert.equal(await log.appendAfter('g0.a', entry, 0), true);
  assert.equal((await log.read('g3.a')).position, 0);
});

test('the size limit also counts names and entries without content', async () => {
  const log = new MemorySharedLog();
  const name = (at: number): string => `g${at}.${'a'.repeat(1_000)}`;
  for (let at = 0; at < 60_000; at++) log.append(name(at), Buffer.alloc(0));
  assert.deepEqual(await log.read(name(0)), { entries: [], position: 0 });
  assert.equal((await log.read(name(59_999))).entries.length, 1);
});
