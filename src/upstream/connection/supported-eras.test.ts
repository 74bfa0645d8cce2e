import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ScriptedServer, statefulServer } from '../../../test/support/scripted-server.ts';
import { clientOf, httpServerOf, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { result } from '../../protocol/compose.ts';
import { handshakeFromInitialize } from '../../protocol/handshake-results.ts';
import { sameHandshake } from './supported-eras.ts';

function handshake(version: string) {
  const text = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"${version}"}}`;
  return handshakeFromInitialize(result('1', text, 'stateful'));
}

test('handshakes are the same if the server sends the same result in the same revision', () => {
  assert.ok(sameHandshake(handshake('1'), handshake('1')));
  assert.ok(!sameHandshake(handshake('1'), handshake('2')));
  assert.ok(!sameHandshake(handshake('1'), { ...handshake('1'), revision: '2025-06-18' }));
});

test('connections of a server share one handshake result in memory while the server sends the same', async () => {
  const bench = new UpstreamBench();
  const handlers = statefulServer();
  const script = new ScriptedServer(handlers);
  await bench.run([httpServerOf('a'), script]);
  const kept = async (sessionId: string, capabilities: string) => {
    const catalog = await bench.set.catalog('a', clientOf(sessionId, capabilities), 1000);
    return catalog!.handshake;
  };
  const first = await kept('one', '{}');
  const second = await kept('two', '{"roots":{}}');
  assert.equal(script.links.length, 2);
  assert.equal(second, first);
  const { initialize } = handlers;
  handlers['initialize'] = (...args) => ({ ...(initialize!(...args) as object), instructions: 'another' });
  const third = await kept('three', '{"sampling":{}}');
  assert.equal(third.instructions, 'another');
});
