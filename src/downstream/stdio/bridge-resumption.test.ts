import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { call, DownstreamRig } from '../../../test/support/downstream-rig.ts';
import { FakeCore, type Handler, ok } from '../../../test/support/fake-core.ts';
import { LinePipes } from '../../../test/support/line-pipes.ts';
import { openHttpClient } from '../../http/client/open-http-client.ts';
import { type Clock, systemClock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure } from '../../model/outcome.ts';
import { bodyString } from '../../protocol/body.ts';
import { Logger } from '../../telemetry/logger.ts';
import { StdioBridge } from './stdio-bridge.ts';

const after: Clock['after'] = (ms, task) => systemClock.after(ms / 100, task);
const clock: Clock = { ...systemClock, after };
const error = (text: string) => `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"${text}"}}`;

for (const [what, status, said, why] of [
  ['has nothing after the last event', 400, error('Nothing can be replayed'), /HTTP status 400/],
  ['does not know the session', 404, error('Session not found'), /HTTP status 404/],
  ['refuses the client', 401, error('Unauthorized'), /HTTP status 401/],
  ['is gone', 0, '', /ECONNREFUSED|no connection|connect/i],
] as const) {
  test(`a call whose answer broke off is UNKNOWN if the gateway ${what}`, async (t) => {
    const gateway = createServer((request, response) => {
      if (request.method !== 'POST') {
        response.writeHead(status, { 'content-type': 'application/json' }).end(said);
        return;
      }
      const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`id: 1\nretry: 1\ndata: ${progress}\n\n`);
      if (status === 0) response.once('close', () => gateway.close().closeAllConnections());
    });
    await new Promise<void>((done) => gateway.listen(0, '127.0.0.1', done));
    t.after(() => gateway.close());
    const client = openHttpClient(`http://127.0.0.1:${(gateway.address() as AddressInfo).port}`);
    const pipes = new LinePipes();
    const deps = { path: '/mcp', headers: [], logger: Logger.silent(), maxMessageBytes: 1 << 20, patienceMs: 10 };
    const handler = new StdioBridge(pipes, { ...deps, client, clock });
    pipes.send(call('é', 'tools/call', { name: 't' }));
    assert.equal((await pipes.message()).method, 'notifications/progress');
    const answer = await pipes.message();
    assert.deepEqual([answer.id, answer.error.data.outcome], ['é', 'UNKNOWN']);
    assert.match(answer.error.message, why);
    pipes.ends.write.end();
    await handler.closed;
    assert.deepEqual(await pipes.rest(), []);
  });
}

test('a session that replaces a lost one has the log level and the subscriptions of the client', async (t) => {
  const core = new FakeCore();
  const rig = await DownstreamRig.start({ core });
  t.after(() => rig.close());
  const client = openHttpClient(`http://127.0.0.1:${rig.listener.port}`);
  const pipes = new LinePipes();
  const deps = { path: '/mcp', headers: [], logger: Logger.silent(), maxMessageBytes: 1 << 20 };
  // A loaded machine may need longer than a twentieth of a second.
  const patient: Clock = { ...clock, after: (ms, task) => systemClock.after(ms === 5_000 ? ms : ms / 100, task) };
  const handler = new StdioBridge(pipes, { ...deps, client, clock: patient });
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } };
  const refuse: Handler = () => failure(new GatewayError('INVALID_PARAMS', 'no such resource'));
  await pipes.send(call(0, 'initialize', params)).message();
  pipes.send('{"jsonrpc":"2.0","method":"notifications/initialized"}');
  await pipes.send(call(1, 'logging/setLevel', { level: 'error' })).message();
  for (const uri of ['a://1', 'ü://2', 'a://gone']) {
    assert.ok((await pipes.send(call(uri, 'resources/subscribe', { uri })).message()).result);
  }
  assert.ok((await pipes.send(call(2, 'resources/unsubscribe', { uri: 'a://1' })).message()).result);
  core.on('resources/subscribe', refuse);
  assert.ok((await pipes.send(call(3, 'resources/subscribe', { uri: 'a://3' })).message()).error);

  const lost = core.ran.at(-1)!.client.sessionId!;
  let failures = 1;
  core.on('resources/subscribe', (exchange, endpoint) => {
    if (bodyString(exchange.request, 'uri') === 'a://gone') return refuse(exchange, endpoint);
    return failures-- > 0 ? failure(new GatewayError('NOT_SENT', 'the server starts')) : ok(exchange, '{}');
  });
  const before = core.ran.length;
  rig.downstream.sessions.end(rig.downstream.sessions.get(lost)!, 'lost');
  pipes.send(call(4, 'tools/list'));
  const got = [await pipes.message()];
  while (got.at(-1).id !== 4) got.push(await pipes.message());
  // Each of its resources may have changed; one is refused from now on.
  assert.deepEqual(
    got.flatMap(({ method, params: of }) => (method === 'notifications/resources/updated' ? [of.uri] : [])).sort(),
    ['a://gone', 'ü://2'],
  );
  assert.deepEqual(got.at(-1), { jsonrpc: '2.0', id: 4, result: { method: 'tools/list' } });
  const ran = core.ran.slice(before).map(({ client: { sessionId }, request }) => {
    assert.notEqual(sessionId, lost);
    return `${request.method} ${bodyString(request, 'uri') ?? bodyString(request, 'level') ?? ''}`;
  });
  assert.deepEqual(ran.sort(), [
    'logging/setLevel error',
    'resources/subscribe a://gone',
    'resources/subscribe ü://2',
    'resources/subscribe ü://2',
    'tools/list ',
  ]);
  pipes.ends.write.end();
  await handler.closed;
  assert.deepEqual(await pipes.rest(), [], 'the client gets no answer that it did not ask for');
});
