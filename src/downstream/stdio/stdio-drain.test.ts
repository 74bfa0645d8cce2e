import assert from 'node:assert/strict';
import { test } from 'node:test';
import { call, DownstreamRig, stateless } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { LinePipes } from '../../../test/support/line-pipes.ts';
import { request } from '../../protocol/compose.ts';

test('during a drain calls in flight on pipes of both eras are answered, and new ones are refused', async (t) => {
  const rig = await DownstreamRig.start();
  t.after(() => rig.close());
  const pipes = new LinePipes();
  const handler = rig.downstream.stdio(pipes);
  const clientInfo = { name: 'c', version: '1' };
  const handshake = { protocolVersion: '2025-11-25', capabilities: { roots: {} }, clientInfo };
  await pipes.send(call(0, 'initialize', handshake)).message();
  let go = (): void => {};
  const released = new Promise<void>((resolve) => {
    go = resolve;
  });
  rig.core.on('tools/call', async (exchange) => {
    if (exchange.client.sessionId === null) await released;
    else await exchange.ask(request('roots/list', '1', null, 'stateful'));
    return ok(exchange, '{}');
  });
  pipes.send(call('old', 'tools/call', { name: 't' }));
  const asked = await pipes.message();
  assert.equal(asked.method, 'roots/list');
  pipes.send(stateless('tools/call', { name: 't' }, { id: 'new' }).body);
  while (rig.downstream.inFlight < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  rig.downstream.drain();
  assert.equal((await pipes.send(call('late', 'tools/list')).message()).error.message, 'The gateway is stopping');
  // The client can still answer an input request.
  pipes.send(`{"jsonrpc":"2.0","id":"${asked.id}","result":{"roots":[]}}`);
  assert.deepEqual(await pipes.message(), { jsonrpc: '2.0', id: 'old', result: {} });
  assert.equal(rig.downstream.inFlight, 1);
  go();
  assert.equal((await pipes.message()).id, 'new');
  assert.equal(rig.downstream.inFlight, 0);
  rig.downstream.close();
  await handler.closed;
});

test('calls still in flight on pipes when the gateway closes are UNKNOWN', async (t) => {
  const rig = await DownstreamRig.start();
  t.after(() => rig.close());
  const pipes = new LinePipes();
  rig.downstream.stdio(pipes);
  rig.core.on('tools/call', () => new Promise(() => {}));
  pipes.send(stateless('tools/call', { name: 't' }, { id: 'new' }).body);
  while (rig.downstream.inFlight < 1) await new Promise((resolve) => setTimeout(resolve, 5));
  rig.downstream.close();
  const { error } = await pipes.message();
  assert.equal(error.data.outcome, 'UNKNOWN');
});
