import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, makeTransport } from '../../../test/fixtures/http/bench.ts';
import { parseRpc } from '../../../test/fixtures/http/rpc.ts';
import { eventText, openEvents } from '../../../test/fixtures/http/stage.ts';
import { StatefulServer } from '../../../test/fixtures/http/stateful.ts';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulServer } from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';

const timeoutMs = 1_000;

test('a list that an HTTP server does not answer in time is cancelled there, and its POST is closed', {
  timeout: 10_000,
}, async () => {
  const asked: unknown[] = [];
  let open = 0;
  const server = await StatefulServer.start({
    intercept: ({ id, method }, { res }) => {
      if (method !== 'tools/list') return false;
      asked.push(id);
      open++;
      res.on('close', () => open--);
      return true;
    },
  });
  const bench = new UpstreamBench();
  const there = { open: () => makeTransport('http', server.url, { clock: bench.clock }) };
  const client = clientOf('s');
  const cancelled = (): unknown[] =>
    server.stage
      .of('POST')
      .map(({ body }) => parseRpc(body))
      .filter(({ method }) => method === 'notifications/cancelled')
      .map(({ params }) => (params as { readonly requestId?: unknown }).requestId);
  try {
    await bench.run([httpServerOf('a', { timeoutMs }), there as unknown as ScriptedServer]);
    const listed = bench.set.catalog('a', client, 60_000);
    await server.stage.until(() => open === 1);
    await bench.clock.advance(timeoutMs);
    assert.equal(await listed, null);
    await eventually(() => open === 0 && cancelled().length === 1);
    assert.deepEqual(cancelled(), asked);
    const params = '{"name":"echo","arguments":{"text":"still there"}}';
    assert.match(answerText(await bench.call('a', toolCall(client, params))), /still there/);
  } finally {
    await bench.set.close('interrupt');
    await server.stop();
  }
});

test('the reply stream of a call that is lost because of a bad message is closed', { timeout: 10_000 }, async () => {
  let open = 0;
  const server = await StatefulServer.start({
    intercept: ({ method }, { res }) => {
      if (method !== 'tools/call') return false;
      open++;
      res.on('close', () => open--);
      openEvents(res);
      res.write(eventText({ name: 'message', data: '{"half": ' }));
      return true;
    },
  });
  const bench = new UpstreamBench();
  const there = { open: () => makeTransport('http', server.url, { clock: bench.clock }) };
  try {
    await bench.run([httpServerOf('a'), there as unknown as ScriptedServer]);
    const { code } = failureOf(await bench.call('a', toolCall(clientOf('s'))));
    assert.equal(code, 'UPSTREAM_PROTOCOL');
    await eventually(() => open === 0);
  } finally {
    await bench.set.close('interrupt');
    await server.stop();
  }
});

test('check:B13 on a pipe an unanswered list is cancelled, an unanswered log level is not', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({
    ...statefulServer(),
    initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {}, logging: {} } }),
    'tools/list': () => SILENCE,
    'logging/setLevel': () => SILENCE,
  });
  await bench.run([serverOf('a', { timeoutMs }), script]);
  answerText(await bench.call('a', toolCall(clientOf('s', '{}', { logLevel: 'info' }))));
  await settled();
  const { last } = script;
  const [list, level] = [last.lastOf('tools/list').id, last.lastOf('logging/setLevel').id];
  await bench.clock.advance(timeoutMs);
  assert.equal(last.count('notifications/cancelled'), 1);
  assert.equal(last.lastOf('notifications/cancelled').params?.['requestId'], list);
  assert.deepEqual(new Set(last.abandoned), new Set([list, level]));
});
