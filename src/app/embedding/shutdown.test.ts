import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { createGateway } from '../../index.ts';

const STDIO = resolve(import.meta.dirname, '../../../test/fixtures/conformance/stdio.ts');

/** A server that answers, and takes no hint that it should end: not the end of its input, not SIGTERM. */
const STUBBORN = `
process.on('SIGTERM', () => {});
setInterval(() => {}, 1000);
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  const serverInfo = { name: 'stubborn', version: '1' };
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo },
    'tools/list': { tools: [] },
  };
  const body = method in results ? { result: results[method] } : { error: { code: -32601, message: 'unknown' } };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...body }));
});`;

function handles(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const type of process.getActiveResourcesInfo()) {
    if (/^(?:ProcessWrap|PipeWrap|TCP\w*Wrap|FSEvent\w*)$/.test(type)) counts[type] = (counts[type] ?? 0) + 1;
  }
  return counts;
}

test('S4.17 check:A12 a shutdown ends willing and stubborn processes, leaks no handle, and may be asked for twice', async () => {
  const before = handles();
  const gateway = await createGateway({
    servers: {
      willing: { command: process.execPath, args: [STDIO, 'stateful'] },
      one: { command: process.execPath, args: ['-e', STUBBORN] },
      two: { command: process.execPath, args: ['-e', STUBBORN] },
    },
  });
  await gateway.ready();
  const pids = gateway.servers().flatMap(({ connections }) => connections.map(({ pid }) => pid!));
  assert.equal(pids.length, 3);
  for (const pid of pids) assert.equal(process.kill(pid, 0), true);
  assert.notDeepEqual(handles(), before);
  await Promise.all([gateway.close(), gateway.close()]);
  for (const pid of pids) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  await gateway.close();
  // The reaper, a process of its own, ends by itself once its input has ended.
  while (!isDeepStrictEqual(handles(), before)) await pause(10);
});
