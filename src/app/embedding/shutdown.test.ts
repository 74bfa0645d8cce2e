import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { textResult, textServer, tool } from '../../../test/support/text-server.ts';
import { createGateway, type GatewayError } from '../../index.ts';

const STDIO = resolve(import.meta.dirname, '../../../test/fixtures/conformance/stdio.ts');

/** A server that answers, and ignores the end of its input and SIGTERM. */
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

test('S4.17 check:A12 a shutdown ends willing and stubborn processes, leaks no handle, and may be requested twice', async () => {
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
  const refused = () => assert.rejects(gateway.restart('willing'), { code: 'INVALID_REQUEST' });
  await Promise.all([gateway.close(), gateway.close(), refused()]);
  for (const pid of pids) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  await gateway.close();
  await refused();
  // The reaper, a process of its own, ends by itself once its input has ended.
  while (!isDeepStrictEqual(handles(), before)) await pause(10);
});

test('S4.17 close waits for calls of the embedding program until the drain time limit', async () => {
  for (const [drainMs, word] of [
    [30_000, 'done'],
    [100, 'UNKNOWN'],
  ] as const) {
    const { promise: called, resolve: begun } = Promise.withResolvers<void>();
    const { promise: answered, resolve: answer } = Promise.withResolvers<string>();
    const call = (): Promise<string> => {
      begun();
      return answered;
    };
    const gateway = await createGateway({ servers: { slow: textServer({ tools: () => [tool('wait')], call }) } });
    const ended = gateway.callTool('slow__wait').then(
      ({ content }) => content[0]?.text,
      (error: GatewayError) => error.outcome,
    );
    await called;
    const closed = gateway.close({ drainMs });
    if (word === 'done') setTimeout(() => answer(textResult(word)), 200);
    await closed;
    assert.equal(await ended, word);
    await gateway.closed;
  }
});
