import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, DownstreamRig, stateless } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { send } from '../../../test/support/raw-http.ts';
import type { RequestContext } from '../../http/listener/request-context.ts';
import { AGGREGATE, type Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure } from '../../model/outcome.ts';
import { classify, isRejection } from '../../protocol/classify.ts';
import { errorAnswer, notification, request } from '../../protocol/compose.ts';
import { scanMessage } from '../../protocol/scan.ts';
import { Fingerprints } from '../endpoints/fingerprints.ts';
import { StatelessHandler } from './stateless-handler.ts';

let rig: DownstreamRig;
before(async () => {
  rig = await DownstreamRig.start({ patienceMs: 150 });
});
after(() => rig.close());

const progress = notification('notifications/progress', '{"progressToken":1,"progress":1}', 'stateless');

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

test('a self-contained request is served without a session, and gets none', async () => {
  rig.core.on('tools/call', (exchange) => ok(exchange, '{"resultType":"complete","n":1.0}'));
  const { body, headers } = stateless('tools/call', { name: 't' }, { id: 'a', capabilities: { sampling: { x: 1 } } });
  const reply = await rig.post(body, { ...headers, 'mcp-session-id': 'f'.repeat(32) });
  assert.equal(reply.status, 200);
  assert.equal(reply.headers['content-type'], 'application/json');
  assert.equal(reply.headers['mcp-session-id'], undefined, 'a session id beside it is ignored, not echoed');
  assert.equal(reply.text, '{"jsonrpc":"2.0","id":"a","result":{"resultType":"complete","n":1.0}}');
  const { client, takesInputRequired } = rig.core.ran.at(-1)!;
  assert.equal(client.sessionId, null);
  assert.equal(client.revision, '2026-07-28');
  assert.equal(client.capabilities, '{"sampling":{"x":1}}');
  assert.equal(client.info, '{"name":"test","version":"1"}');
  assert.match(client.fingerprint, /^[0-9a-f]{16}$/);
  assert.equal(takesInputRequired, true);
});

test('server/discover presents the endpoint', async () => {
  const { body, headers } = stateless('server/discover');
  const reply = await rig.post(body, headers);
  assert.deepEqual(reply.json.result, {
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: { listChanged: true }, logging: {} },
    instructions: 'be kind',
    ttlMs: 5,
    cacheScope: 'private',
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'fake', version: '1' } },
  });
});

test('proto:H8 errors of the protocol have their HTTP status', async () => {
  const cases: [number, number][] = [
    [-32601, 404],
    [-32020, 400],
    [-32021, 400],
    [-32022, 400],
    [-32602, 200],
    [-1, 200],
  ];
  for (const [code, status] of cases) {
    rig.core.on('tools/call', () => answer(errorAnswer('0', code, 'x', '{"k":1.0}', 'stateless')));
    const { body, headers } = stateless('tools/call', { name: 't' }, { id: 9 });
    const reply = await rig.post(body, headers);
    assert.equal(reply.status, status, String(code));
    assert.equal(reply.json.id, 9);
    assert.equal(reply.json.error.code, code);
  }
  rig.core.on('tools/call', () => failure(new GatewayError('RATE_LIMITED', 'too often', { retryAfterMs: 61_000 })));
  const limited = stateless('tools/call', { name: 't' });
  const refused = await rig.post(limited.body, limited.headers);
  assert.deepEqual([refused.status, refused.headers['retry-after'], refused.json.error.code], [200, '61', 53011]);
  rig.core.on('tools/call', () => failure(new GatewayError('METHOD_NOT_FOUND', 'no')));
  const { body, headers } = stateless('tools/call', { name: 't' });
  assert.equal((await rig.post(body, headers)).status, 404);
});

test('proto:H1 proto:H2 proto:H8 contradictions between headers and body, and missing ones, are refused with the id', async () => {
  const good = stateless('tools/call', { name: 't' }, { id: 'h' });
  const { 'mcp-method': _method, ...noMethod } = good.headers;
  const { 'mcp-name': _name, ...noName } = good.headers;
  const { 'mcp-protocol-version': _version, ...noVersion } = good.headers;
  const bare = call('h', 'tools/call', { name: 't' });
  const unsupported = good.body.replace('2026-07-28', '2099-01-01');
  const cases: [string, string, Record<string, string>, number, number][] = [
    ['method missing', good.body, noMethod, 400, -32020],
    ['method other', good.body, { ...good.headers, 'mcp-method': 'tools/list' }, 400, -32020],
    ['method case', good.body, { ...good.headers, 'mcp-method': 'Tools/Call' }, 400, -32020],
    ['name missing', good.body, noName, 400, -32020],
    ['name other', good.body, { ...good.headers, 'mcp-name': 'T' }, 400, -32020],
    ['name badly encoded', good.body, { ...good.headers, 'mcp-name': '=?base64?dA?=' }, 400, -32020],
    ['version missing', good.body, noVersion, 400, -32020],
    ['version other', good.body, { ...good.headers, 'mcp-protocol-version': '2025-11-25' }, 400, -32020],
    ['version unknown', unsupported, { ...good.headers, 'mcp-protocol-version': '2099-01-01' }, 400, -32022],
    ['no meta', bare, good.headers, 400, -32602],
    ['removed method', stateless('ping', {}, { id: 'h' }).body, stateless('ping').headers, 404, -32601],
    ['initialize', stateless('initialize', {}, { id: 'h' }).body, stateless('initialize').headers, 404, -32601],
  ];
  const ran = rig.core.ran.length;
  for (const [what, body, headers, status, code] of cases) {
    const reply = await rig.post(body, headers);
    assert.equal(reply.status, status, what);
    assert.equal(reply.json.error.code, code, what);
    assert.equal(reply.json.id, 'h', what);
  }
  assert.equal(rig.core.ran.length, ran, 'no refused request reached the core');
  const sentinel = { ...good.headers, 'mcp-name': '=?base64?dA==?=' };
  rig.core.on('tools/call', (exchange) => ok(exchange, '{}'));
  assert.equal((await rig.post(good.body, sentinel)).status, 200);
});

test('proto:H8 GET and DELETE are refused in this revision', async () => {
  const headers = { 'mcp-protocol-version': '2026-07-28', accept: 'text/event-stream' };
  for (const method of ['GET', 'DELETE']) {
    const reply = await send(rig.url(), method, headers);
    assert.equal(reply.status, 405, method);
    assert.equal(reply.headers['allow'], 'POST');
  }
});

test('answers of clients, and batches, are refused in this revision', async () => {
  const reply = await rig.post('{"jsonrpc":"2.0","id":1,"result":{}}', { 'mcp-protocol-version': '2026-07-28' });
  assert.equal(reply.status, 400);
  assert.equal(reply.json.error.code, -32600);
  const batch = await rig.post(`[${stateless('tools/list').body}]`, stateless('tools/list').headers);
  assert.equal(batch.status, 400);
});

test('proto:H9 a call with messages becomes a stream without event ids', async () => {
  let exchange!: Exchange;
  let finish!: () => void;
  rig.core.on('tools/call', (running) => {
    exchange = running;
    running.emit(progress);
    return new Promise((resolve) => {
      finish = () => resolve(ok(running, '{"done":1.0}'));
    });
  });
  const { body, headers } = stateless('tools/call', { name: 't' }, { id: 5 });
  const stream = await rig.stream(body, headers);
  assert.equal(stream.headers['x-accel-buffering'], 'no');
  const event = await stream.next();
  assert.equal(event?.id, null);
  assert.equal(JSON.parse(event!.data).params.progress, 1);
  await assert.rejects(exchange.ask(request('roots/list', '1', null, 'stateful')), { code: 'MISSING_CAPABILITY' });
  finish();
  assert.deepEqual(await stream.message(), { jsonrpc: '2.0', id: 5, result: { done: 1 } });
  assert.equal(await stream.next(), null);
});

test('a call that takes long becomes a stream too', async () => {
  rig.core.on('tools/call', async (exchange) => {
    await new Promise((resolve) => setTimeout(resolve, 250));
    return ok(exchange, '{}');
  });
  const { body, headers } = stateless('tools/call', { name: 't' });
  const stream = await rig.stream(body, headers);
  assert.equal(stream.headers['content-type'], 'text/event-stream');
  assert.equal((await stream.message()).id, 1);
});

test('fault:F17 a client that goes away cancels its call, before its stream and after', async () => {
  for (const early of [true, false]) {
    let cancelled = '';
    let running = false;
    rig.core.on('tools/call', (exchange) => {
      running = true;
      if (!early) exchange.emit(progress);
      return new Promise((resolve) => {
        exchange.onCancel = (reason) => {
          cancelled = reason;
          resolve(failure(new GatewayError('CANCELLED', reason)));
        };
      });
    });
    const { body, headers } = stateless('tools/call', { name: 't' });
    if (early) {
      const controller = new AbortController();
      const fetching = fetch(rig.url(), {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
        body,
        signal: controller.signal,
      });
      fetching.catch(() => {});
      await until(() => running);
      controller.abort();
    } else (await rig.stream(body, headers)).drop();
    const start = performance.now();
    await until(() => cancelled !== '');
    assert.ok(performance.now() - start < 2_000);
    await until(() => rig.downstream.inFlight === 0);
  }
});

test('notifications are accepted and passed on', async () => {
  const headers = { 'mcp-protocol-version': '2026-07-28' };
  const before = rig.core.notified.length;
  assert.equal(
    (await rig.post('{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1.0}}', headers)).status,
    202,
  );
  assert.equal(rig.core.notified.length, before + 1);
  assert.equal(rig.core.notified.at(-1)?.client.sessionId, null);
});

test('the exchange has the Mcp-Param headers and no others', async () => {
  rig.core.on('tools/call', (exchange) => ok(exchange, '{}'));
  const { body, headers } = stateless('tools/call', { name: 't' });
  await rig.post(body, { ...headers, 'Mcp-Param-Region': 'eu', authorization: 'Bearer secret', cookie: 'a=b' });
  assert.deepEqual({ ...rig.core.ran.at(-1)!.paramHeaders }, { 'mcp-param-region': 'eu' });
});

test('a caller has a limit of listening streams, and they end in order when the gateway stops (fault:F33)', async () => {
  const other = await DownstreamRig.start({ sessions: { maxPerPrincipal: 64 } });
  try {
    let open = 0;
    other.core.on('subscriptions/listen', (exchange) => {
      open++;
      const acknowledged = '{"notifications":{}}';
      exchange.emit(notification('notifications/subscriptions/acknowledged', acknowledged, 'stateless'));
      return new Promise((resolve) => {
        exchange.onCancel = () => {
          open--;
          resolve(failure(new GatewayError('CANCELLED', 'x')));
        };
      });
    });
    const listen = (id: string | number) => {
      const { body, headers } = stateless('subscriptions/listen', { notifications: {} }, { id });
      return other.stream(body, headers);
    };
    const streams = await Promise.all(Array.from({ length: 64 }, (_, i) => listen(i)));
    for (const stream of streams)
      assert.equal((await stream.message()).method, 'notifications/subscriptions/acknowledged');
    const refused = await listen('ß');
    assert.equal(refused.status, 429);
    streams.pop()!.drop();
    await until(() => open === 63);
    const last = await listen('ß');
    assert.equal((await last.message()).method, 'notifications/subscriptions/acknowledged');
    other.downstream.drain();
    assert.deepEqual(await last.message(), {
      jsonrpc: '2.0',
      id: 'ß',
      result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 'ß' } },
    });
    assert.equal(await last.next(), null);
    assert.equal((await streams[3]!.message()).id, 3);
    assert.equal(open, 0);
  } finally {
    await other.close();
  }
});

test('with agents, one caller takes at most half of all requests in flight; a single user takes them all', () => {
  const statuses: number[] = [];
  const context = { headers: {}, onDisconnect() {}, answer: (status: number) => statuses.push(status) };
  const { body, headers } = stateless('tools/call', { name: 't' });
  const inbound = classify(headers, scanMessage(Buffer.from(body), 'stateful', 'strict') as Message);
  assert.ok(!isRejection(inbound) && inbound.era === 'stateless');
  const handlerFor = (...agents: string[]) => {
    const deps = {
      core: { run: () => new Promise(() => {}) },
      endpoints: { forwardedOf: () => undefined, handleOf: () => null },
      fingerprints: new Fingerprints(),
      pendingInput: { matchRetry: () => null },
      patience: { leave() {} },
      wires: { tap: null },
      state: () => ({ agents: new Map(agents.map((name) => [name, {}])) }),
    };
    return new StatelessHandler(deps as unknown as ConstructorParameters<typeof StatelessHandler>[0]);
  };
  const take = (handler: StatelessHandler, id: string, times: number): readonly number[] => {
    statuses.length = 0;
    const admitted = { principal: { id, name: id, servers: null }, endpoint: AGGREGATE };
    for (let i = 0; i < times; i++) handler.take(context as unknown as RequestContext, inbound, admitted, false);
    return statuses;
  };
  const shared = handlerFor('ada', 'bob');
  assert.deepEqual(take(shared, 'agent:ada', 4_097), [429]);
  assert.deepEqual(take(shared, 'agent:bob', 1), []);
  const [, one] = shared.intake.exchanges.all();
  one!.cancel('the client has gone');
  one!.finish(failure(new GatewayError('CANCELLED', 'x')));
  assert.deepEqual(take(shared, 'agent:ada', 2), [429]);
  assert.deepEqual(take(handlerFor(), 'anonymous', 8_193), [503]);
});
