import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type Bench,
  callEcho,
  echoed,
  eventually,
  HttpReceiver,
  initialize,
  makeTransport,
  notify,
  openBench,
} from '../../../test/fixtures/http/bench.ts';
import { parseRpc, resultOf } from '../../../test/fixtures/http/rpc.ts';
import { eventText, openEvents, type StageRequest, sendJson } from '../../../test/fixtures/http/stage.ts';
import { type StatefulOptions, StatefulServer } from '../../../test/fixtures/http/stateful.ts';
import { asSecrets } from '../../../test/support/as-secrets.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';

async function stateful(
  options: StatefulOptions,
  run: (server: StatefulServer, bench: Bench) => Promise<void>,
  headers: Record<string, string> = {},
): Promise<void> {
  const server = await StatefulServer.start(options);
  const bench = await openBench('http', server.url, { headers });
  try {
    await run(server, bench);
  } finally {
    await bench.transport.close('interrupt');
    await server.stop();
  }
}

function posted(server: StatefulServer, method: string): StageRequest {
  return server.stage.of('POST').find(({ body }) => parseRpc(body).method === method)!;
}

const LIMIT = { timeout: 20_000 };

describe('Streamable HTTP, stateful era', LIMIT, () => {
  for (const reply of ['json', 'sse'] as const) {
    test(`S2.7 S2.10 check:B4 handshake, session and call, answered as ${reply}`, () =>
      stateful({ reply }, async (server, bench) => {
        await initialize(bench, 1);
        callEcho(bench, 2, 'hi');
        assert.equal(await echoed(bench, 2), 'hi');
        assert.deepEqual(bench.receiver.sessionIds, ['session-1']);
        const first = posted(server, 'initialize');
        assert.equal(first.headers['accept'], 'application/json, text/event-stream');
        assert.equal(first.headers['content-type'], 'application/json');
        assert.equal(first.headers['content-length'], String(first.body.length));
        assert.equal(first.headers['mcp-session-id'], undefined);
        assert.equal(first.headers['mcp-protocol-version'], undefined);
        for (const method of ['notifications/initialized', 'tools/call']) {
          const { headers } = posted(server, method);
          assert.equal(headers['mcp-session-id'], 'session-1');
          assert.equal(headers['mcp-protocol-version'], '2025-11-25');
        }
      }));
  }

  test('S2.7 only revisions that know the revision header get it', () =>
    stateful({ revision: '2025-03-26' }, async (server, bench) => {
      await initialize(bench, 1, '2025-03-26');
      callEcho(bench, 2);
      await echoed(bench, 2);
      assert.equal(posted(server, 'tools/call').headers['mcp-protocol-version'], undefined);
      assert.equal(posted(server, 'tools/call').headers['mcp-session-id'], 'session-1');
    }));

  test('S2.7 sessions that last 5 s ask a server without a GET stream again; short ones do not', async () => {
    const server = await StatefulServer.start({ listen: 405 });
    const clock = new FakeClock();
    const spec = { type: 'http' as const, url: server.url, headers: asSecrets({}), tls: {} };
    const asked = (): number => server.stage.of('GET').length;
    const open = async (): Promise<Bench> => {
      const transport = makeTransport('http', server.url, { spec, clock });
      const receiver = new HttpReceiver();
      await transport.open(receiver);
      const bench = { transport, receiver };
      await initialize(bench, 1);
      callEcho(bench, 2);
      await echoed(bench, 2);
      return bench;
    };
    const benches = [await open()];
    await eventually(() => asked() === 1);
    await clock.advance(1);
    benches.push(await open());
    await clock.advance(4_999);
    assert.equal(asked(), 1, 'the server refused it recently');
    await clock.advance(1);
    await eventually(() => asked() === 2);
    benches.push(await open());
    await benches[2]!.transport.close('remove');
    await clock.advance(60_001);
    assert.equal(asked(), 2, 'a session that has ended does not ask');
    benches.push(await open());
    await eventually(() => asked() === 3);
    for (const { transport } of benches) await transport.close('interrupt');
    await server.stop();
  });

  test('S2.7 no message is sent before notifications/initialized', () => {
    let release: (() => void) | null = null;
    return stateful(
      {
        intercept: (message, { res }) => {
          if (message.method !== 'notifications/initialized') return false;
          release = () => res.writeHead(202).end();
          return true;
        },
      },
      async (server, bench) => {
        await initialize(bench, 1);
        callEcho(bench, 2);
        callEcho(bench, 3);
        bench.transport.abandon(3);
        await server.stage.until(() => release !== null);
        await settled();
        assert.equal(server.stage.requests.length, 2);
        release!();
        assert.equal(await echoed(bench, 2), 'hello');
        const calls = server.stage.of('POST').filter(({ body }) => parseRpc(body).method === 'tools/call');
        assert.equal(calls.length, 1);
      },
    );
  });

  test('all requests carry the declared headers; a wire header that the client chose is not sent', () =>
    stateful(
      {},
      async (server, bench) => {
        await initialize(bench, 1);
        await server.stage.until(() => server.stage.of('GET').length > 0);
        await bench.transport.close('remove');
        assert.deepEqual(
          server.stage.requests.map(({ method }) => method),
          ['POST', 'POST', 'GET', 'DELETE'],
        );
        for (const { headers, method } of server.stage.requests) {
          assert.equal(headers['authorization'], 'Bearer sesame-open', method);
          assert.equal(headers['x-tenant'], 'a', method);
          assert.notEqual(headers['mcp-session-id'], 'forged');
          assert.equal(headers['traceparent'], undefined);
        }
        assert.equal(server.stage.of('GET')[0]!.headers['accept'], 'text/event-stream');
      },
      { Authorization: 'Bearer sesame-open', 'X-Tenant': 'a', 'Mcp-Session-Id': 'forged', traceparent: '00-1-2-01' },
    ));

  test('messages of the server outside any request come on the common channel', () =>
    stateful({}, async (server, bench) => {
      await initialize(bench, 1);
      server.push({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
      server.push({ jsonrpc: '2.0', id: 'srv-1', method: 'roots/list' });
      await bench.receiver.until(() => bench.receiver.messages.length === 3);
      const heard = bench.receiver.messages.slice(1);
      assert.deepEqual(
        heard.map(({ request }) => request),
        [0, 0],
      );
      assert.equal(parseRpc(heard[1]!.bytes).id, 'srv-1');
    }));

  for (const listen of [405, 404, 400, 501]) {
    test(`the gateway does not ask a server without a GET stream (${listen}) again, and calls work`, () =>
      stateful({ listen }, async (server, bench) => {
        await initialize(bench, 1);
        await server.stage.until(() => server.stage.of('GET').length === 1);
        callEcho(bench, 2);
        await echoed(bench, 2);
        await settled();
        callEcho(bench, 3);
        await echoed(bench, 3);
        assert.equal(server.stage.of('GET').length, 1);
        assert.deepEqual(bench.receiver.closedReasons, []);
      }));
  }

  for (const deleted of [200, 204, 405, 500]) {
    test(`the gateway deletes the session at the end, also if the server answers ${deleted}`, () =>
      stateful({ deleted }, async (server, bench) => {
        await initialize(bench, 1);
        await bench.transport.close('remove');
        const [request] = server.stage.of('DELETE');
        assert.equal(request?.headers['mcp-session-id'], 'session-1');
      }));
  }

  test('a server that never answers DELETE does not delay the end', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const bench = await openBench('http', server.url, { limits: { closeMs: 50 } });
    await initialize(bench, 1);
    const handle = server.handle.bind(server);
    server.handle = (request) => (request.method === 'DELETE' ? undefined : handle(request));
    await bench.transport.close('remove');
    assert.equal(server.stage.of('DELETE').length, 1);
  });

  test('a shutdown leaves the session, and the next process resumes it', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const before = await openBench('http', server.url);
    await initialize(before, 1);
    await before.transport.close('shutdown');
    assert.equal(server.stage.of('DELETE').length, 0);
    const after = await openBench('http', server.url);
    t.after(() => after.transport.close('interrupt'));
    after.transport.negotiated({ era: 'stateful', revision: '2025-11-25', resumeSessionId: 'session-1' });
    callEcho(after, 1, 'again');
    assert.equal(await echoed(after, 1), 'again');
    await server.stage.until(() => server.listening);
    assert.equal(server.stage.requests.at(-1)!.headers['mcp-session-id'], 'session-1');
  });

  test('a session id that is not visible ASCII is refused', () =>
    stateful(
      {
        intercept: (message, { res }) => {
          if (message.method !== 'initialize') return false;
          const result = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'x', version: '1' } };
          sendJson(res, 200, resultOf(message, result), { 'Mcp-Session-Id': 'two words' });
          return true;
        },
      },
      async (server, bench) => {
        await initialize(bench, 1);
        callEcho(bench, 2);
        await echoed(bench, 2);
        assert.deepEqual(bench.receiver.sessionIds, []);
        assert.equal(posted(server, 'tools/call').headers['mcp-session-id'], undefined);
      },
    ));

  test('S2.7 the client delivers a reply stream as it comes: progress, a request of the server, then the answer', () => {
    let finish: (() => void) | null = null;
    return stateful(
      {
        intercept: (message, { res }) => {
          if (message.method !== 'tools/call') return false;
          openEvents(res);
          res.write(eventText({ id: 'p', retryMs: 5 }));
          res.write(': keep-alive\n\n');
          res.write(eventText({ data: '{"jsonrpc":"2.0",\n"method":"notifications/progress"}' }));
          res.write(eventText({ name: 'heartbeat', data: 'not a message' }));
          res.write(eventText({ data: '{"jsonrpc":"2.0","id":"e1","method":"elicitation/create"}' }));
          finish = () => res.end(eventText({ data: resultOf(message, { content: [{ type: 'text', text: 'done' }] }) }));
          return true;
        },
      },
      async (_server, bench) => {
        await initialize(bench, 1);
        callEcho(bench, 2);
        await bench.receiver.until(() => bench.receiver.messages.length === 3);
        finish!();
        assert.equal(await echoed(bench, 2), 'done');
        const own = bench.receiver.messages.filter(({ request }) => request === 2);
        assert.equal(own.length, 3);
        assert.equal(own[0]!.bytes.toString(), '{"jsonrpc":"2.0",\n"method":"notifications/progress"}');
        assert.equal(bench.receiver.messages.length, 4);
      },
    );
  });

  test('check:B4 event streams split at every byte give the same messages', () => {
    let cut = 0;
    const events = (id: number): Buffer =>
      Buffer.from(
        `: hi\r\n\r\nid: 1\r\ndata:\r\n\r\n${eventText({ data: '{"jsonrpc":"2.0","method":"é"}' })}data: {"jsonrpc":"2.0","id":${id},\rdata: "result":{"ü":"€"}}\r\r`,
      );
    return stateful(
      {
        listen: 405,
        intercept: (message, { res }) => {
          if (message.method !== 'tools/call') return false;
          const bytes = events(Number(message.id));
          openEvents(res);
          res.socket!.setNoDelay(true);
          res.write(bytes.subarray(0, cut), () => setImmediate(() => res.end(bytes.subarray(cut))));
          return true;
        },
      },
      async (_server, bench) => {
        await initialize(bench, 1);
        const length = events(100).length;
        for (cut = 1; cut < length; cut++) {
          const id = 100 + cut;
          callEcho(bench, id);
          const { bytes } = await bench.receiver.answer(id);
          assert.equal(bytes.toString(), `{"jsonrpc":"2.0","id":${id},\n"result":{"ü":"€"}}`);
        }
        const { messages, losses } = bench.receiver;
        assert.equal(messages.length, 1 + 2 * (length - 1));
        assert.deepEqual(losses, []);
      },
    );
  });

  test('a stream that stays open after its answer is cut without a loss', () =>
    stateful(
      {
        listen: 405,
        intercept: (message, { res }) => {
          if (message.method !== 'tools/call') return false;
          openEvents(res);
          res.write(eventText({ data: resultOf(message, { content: [{ type: 'text', text: 'x' }] }) }));
          return true;
        },
      },
      async (server) => {
        const bench = await openBench('http', server.url, { limits: { lingerMs: 20 } });
        await initialize(bench, 1);
        callEcho(bench, 2);
        await echoed(bench, 2);
        const [request] = server.stage.of('POST').slice(-1);
        await new Promise((resolve) => request!.res.on('close', resolve));
        assert.deepEqual(bench.receiver.losses, []);
        await bench.transport.close('interrupt');
      },
    ));
});

describe('opening', LIMIT, () => {
  const wrong: [string, string, Record<string, string>][] = [
    ['not a url', 'nonsense', {}],
    ['another scheme', 'ftp://127.0.0.1/', {}],
    ['a header that would add another', 'http://127.0.0.1:9/mcp', { 'X-A': 'a\r\nX-B: secret-value' }],
  ];
  for (const [what, url, headers] of wrong) {
    for (const type of ['http', 'sse', 'json'] as const) {
      test(`${type}: ${what} is refused with a reason, without the value`, async () => {
        const transport = makeTransport(type, url, { headers });
        const bench = await openBench('json', 'http://127.0.0.1:9/');
        await assert.rejects(transport.open(bench.receiver), (error) => {
          assert.ok(error instanceof GatewayError);
          assert.equal(error.outcome, 'NOT_SENT');
          assert.match(error.message, /^fixture: /);
          assert.doesNotMatch(error.message, /secret-value/);
          return true;
        });
        await transport.close('remove');
        await bench.transport.close('remove');
      });
    }
  }
});

test('a notification that the server refuses with 500 and a body does not disturb calls', LIMIT, () =>
  stateful(
    {
      intercept: (message, { res }) => {
        if (message.method !== 'notifications/roots/list_changed') return false;
        sendJson(res, 500, { error: 'no' });
        return true;
      },
    },
    async (_server, bench) => {
      await initialize(bench, 1);
      notify(bench, 'notifications/roots/list_changed');
      callEcho(bench, 2);
      assert.equal(await echoed(bench, 2), 'hello');
      assert.deepEqual(bench.receiver.losses, []);
      assert.deepEqual(bench.receiver.closedReasons, []);
    },
  ),
);
