import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, DownstreamRig } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { notification, request } from '../../protocol/compose.ts';

let rig: DownstreamRig;
before(async () => {
  rig = await DownstreamRig.start({ patienceMs: 150 });
});
after(() => rig.close());

/** A session with a call that waits, and on its stream an input request that only probably belongs to the call. */
async function asked() {
  const headers = await rig.session({ capabilities: { roots: {} } });
  let finish = (_outcome: Outcome): void => {};
  const started = new Promise<Exchange>((resolve) => {
    rig.core.on('tools/call', (exchange) => {
      resolve(exchange);
      return new Promise((done) => {
        finish = done;
      });
    });
  });
  const opening = rig.stream(call(1, 'tools/call', { name: 't' }), headers);
  const exchange = await started;
  const answer = exchange.ask(request('roots/list', '"srv"', null, 'stateful'), true);
  answer.catch(() => {});
  const stream = await opening;
  return { headers, exchange, answer, stream, question: await stream.message(), finish };
}

test('an input request that only probably belongs to the call stays open when the call was answered', async () => {
  const { headers, exchange, answer, stream, question, finish } = await asked();
  finish(ok(exchange, '{}'));
  assert.equal((await stream.message()).id, 1);
  assert.deepEqual(await stream.rest(), [], 'the input request is not cancelled');
  const body = `{"jsonrpc":"2.0","id":"${question.id}","result":{"roots":[]}}`;
  assert.equal((await rig.post(body, headers)).status, 202);
  assert.equal((await answer).body.toString(), '{"roots":[]}');
});

test('a cancellation of such a request after the call reaches the session’s own stream', async () => {
  const { headers, exchange, answer, stream, question, finish } = await asked();
  finish(ok(exchange, '{}'));
  await stream.rest();
  const own = await rig.listen(headers);
  rig.downstream.deliver(
    rig.downstream.sessions.find(headers['mcp-session-id']!)!.id,
    notification('notifications/cancelled', '{"requestId":"srv"}', 'stateful'),
  );
  assert.deepEqual((await own.message()).params, { requestId: question.id });
  await assert.rejects(answer, { code: 'CANCELLED' });
  own.drop();
});

test('a client that cancels the call cancels the input request too', async () => {
  const { headers, exchange, answer, finish } = await asked();
  exchange.onCancel = (reason) => finish(failure(new GatewayError('CANCELLED', reason)));
  const cancel = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}';
  assert.equal((await rig.post(cancel, headers)).status, 202);
  await assert.rejects(answer, { code: 'CANCELLED' });
});

test('the client reports progress of two input requests with equal tokens: each report goes to its own server', async () => {
  const headers = await rig.session({ capabilities: { roots: {} } });
  const before = rig.core.notified.length;
  const streams = [];
  for (const server of ['a', 'b']) {
    const started = new Promise<Exchange>((resolve) => {
      rig.core.on('tools/call', (exchange) => {
        resolve(Object.assign(exchange, { target: { server, name: 't' } }));
        return new Promise(() => {});
      });
    });
    const opening = rig.stream(call(server, 'tools/call', { name: 't' }), headers);
    const asking = request('roots/list', '1', '{"_meta":{"x":1.0,"progressToken":1}}', 'stateful');
    (await started).ask(asking).catch(() => {});
    streams.push(await opening);
  }
  const tokens = [];
  for (const stream of streams) {
    const { id, params } = await stream.message();
    assert.equal(params._meta.progressToken, id);
    tokens.push(id);
  }
  for (const token of [tokens[1], 'unknown', 1]) {
    const params = `{"progressToken":${JSON.stringify(token)},"progress":0.50}`;
    const report = `{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`;
    assert.equal((await rig.post(report, headers)).status, 202);
  }
  const reports = rig.core.notified.slice(before);
  assert.deepEqual(
    reports.map(({ message, endpoint }) => [endpoint.server, message.body.toString()]),
    [['b', '{"progressToken":1,"progress":0.50}']],
  );
  for (const stream of streams) stream.drop();
});
