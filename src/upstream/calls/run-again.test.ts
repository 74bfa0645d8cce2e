import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  type Handler,
  Refusal,
  ScriptedServer,
  type ScriptedTransport,
  SILENCE,
  statefulScript,
  statefulServer,
  statelessScript,
} from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';

test('a call that may have run and cannot be sent again is not NOT_SENT', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { retry: 'always' }), script]);
  answerText(await bench.call('a', toolCall(clientOf('s'))));
  script.handlers['tools/call'] = (_params, link) => {
    script.openFails = new GatewayError('NOT_SENT', 'spawn nowhere ENOENT');
    link.end();
    return SILENCE;
  };
  const outcome = bench.call('a', toolCall(clientOf('s')));
  await settled();
  await bench.clock.advance(60_000);
  const { code, data } = failureOf(await outcome);
  assert.deepEqual([code, data.outcome, data.sent, data.retryable], ['UNKNOWN', 'UNKNOWN', true, false]);
});

test('a call that may have run stays UNKNOWN although its next attempt had outdated headers and the last was not sent', async () => {
  const bench = new UpstreamBench();
  const script = statelessScript();
  await bench.run([httpServerOf('a', { retry: 'always' }), script]);
  const lost =
    (outcome: 'UNKNOWN' | 'NOT_SENT'): Handler =>
    (_params, link, id) => {
      link.lose(id, outcome);
      return SILENCE;
    };
  const region = { type: 'string', 'x-mcp-header': 'Region' };
  const tools = [{ name: 'echo', inputSchema: { type: 'object', properties: { region } } }];
  const refused: Handler = () => {
    script.handlers['tools/list'] = () => ({ resultType: 'complete', tools });
    return new Refusal(-32020, 'no match');
  };
  const attempts: Handler[] = [lost('UNKNOWN'), refused, lost('NOT_SENT')];
  script.handlers['tools/call'] = (params, link, id) => attempts.shift()!(params, link, id);
  const call = toolCall(clientOf(null), '{"name":"echo","arguments":{"region":"eu"}}');
  const { data } = failureOf(await bench.call('a', call));
  assert.deepEqual([attempts.length, data.outcome, data.sent, data.retryable], [0, 'UNKNOWN', true, false]);
});

for (const { how, server, lose } of [
  {
    how: 'its pipe',
    server: serverOf('a', { retry: 'always' }),
    lose: (link: ScriptedTransport) => link.end(),
  },
  {
    how: 'its stream',
    server: httpServerOf('a', { retry: 'always' }),
    lose: (link: ScriptedTransport, id: number) => link.lose(id, 'UNKNOWN'),
  },
]) {
  test(`input requests of a call before it lost ${how} are cancelled, and the next attempt has its own deadline`, async () => {
    const bench = new UpstreamBench();
    const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
    await bench.run([server, script]);
    const exchange = toolCall(clientOf('s'));
    const { promise, reject } = Promise.withResolvers<Message>();
    exchange.answer = () => promise;
    const emit = exchange.emit.bind(exchange);
    exchange.emit = (reported) => {
      emit(reported);
      reject(new GatewayError('CANCELLED', 'the server cancelled its request'));
    };
    const outcome = bench.call('a', exchange);
    await settled();
    const id = script.last.lastOf('tools/call').id as number;
    const stream = server.transport.type === 'http' ? id : 0;
    script.last.deliver({ jsonrpc: '2.0', id: 'srv-1', method: 'roots/list' }, stream);
    await settled();
    lose(script.last, id);
    await bench.clock.advance(5_000);
    assert.deepEqual(
      exchange.emitted.map(({ method, body }) => [method, JSON.parse(body.toString()).requestId]),
      [['notifications/cancelled', 'srv-1']],
    );
    const sent = script.links.reduce((sum, link) => sum + link.count('tools/call'), 0);
    assert.equal(sent, 2, 'the call is sent again');
    await bench.clock.advance(60_000);
    assert.equal(failureOf(await outcome).code, 'TIMEOUT');
  });
}
