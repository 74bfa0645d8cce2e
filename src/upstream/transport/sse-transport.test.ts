import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type Bench,
  type BenchOptions,
  callEcho,
  echoed,
  eventually,
  HttpReceiver,
  initialize,
  makeTransport,
  openBench,
} from '../../../test/fixtures/http/bench.ts';
import { type LegacySseOptions, LegacySseServer } from '../../../test/fixtures/http/legacy-sse.ts';
import { parseRpc, resultOf } from '../../../test/fixtures/http/rpc.ts';
import { eventText, HttpStage, openEvents, type StageRequest } from '../../../test/fixtures/http/stage.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import { refusalOf } from './http-refusal.ts';
import { parseEndpoint } from './sse-transport.ts';

const LIMIT = { timeout: 20_000 };

async function legacy(
  options: LegacySseOptions & BenchOptions,
  run: (server: LegacySseServer, bench: Bench) => Promise<void>,
): Promise<void> {
  const { endpoint, intercept, post, ...rest } = options;
  const server = await LegacySseServer.start({
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(intercept === undefined ? {} : { intercept }),
    ...(post === undefined ? {} : { post }),
  });
  try {
    const bench = await openBench('sse', server.url, rest);
    await run(server, bench);
    await bench.transport.close('remove');
  } finally {
    await server.stop();
  }
}

/** Opens a transport to a server that answers the GET with `respond`; returns the error. */
async function openingFails(
  respond: Parameters<typeof HttpStage.start>[0],
  options: BenchOptions = {},
): Promise<GatewayError> {
  const stage = await HttpStage.start(respond);
  const transport = makeTransport('sse', `${stage.origin}/sse`, options);
  try {
    await transport.open(new HttpReceiver());
  } catch (error) {
    return error as GatewayError;
  } finally {
    await transport.close('remove');
    await stage.stop();
  }
  throw new assert.AssertionError({ message: 'the transport opened' });
}

describe('HTTP+SSE of 2024-11-05', LIMIT, () => {
  test('S2.21 S2.10 check:B5 handshake and calls over the one stream', () =>
    legacy({ headers: { Authorization: 'Bearer sesame' } }, async (server, bench) => {
      await initialize(bench, 1, '2024-11-05');
      for (let id = 2; id < 12; id++) callEcho(bench, id, `text ${id}`);
      for (let id = 2; id < 12; id++) assert.equal(await echoed(bench, id), `text ${id}`);
      assert.equal(server.stage.of('GET').length, 1);
      assert.ok(bench.receiver.messages.every(({ request }) => request === 0));
      for (const { headers, method } of server.stage.requests) {
        assert.equal(headers['authorization'], 'Bearer sesame');
        assert.equal(headers['accept'], method === 'GET' ? 'text/event-stream' : 'application/json');
        assert.equal(headers['mcp-session-id'], undefined);
      }
      assert.ok(server.stage.of('POST').every(({ path }) => path === '/message?sessionId=legacy-session-1'));
    }));

  test('S2.21 an absolute endpoint of the same origin is accepted', async () => {
    let origin = '';
    const server = await LegacySseServer.start({ endpoint: (id) => `${origin}/message?sessionId=${id}` });
    origin = server.stage.origin;
    const bench = await openBench('sse', server.url);
    callEcho(bench, 1);
    assert.equal(await echoed(bench, 1), 'hello');
    await bench.transport.close('remove');
    await server.stop();
  });

  test('a POST that the server keeps open ends with its call', LIMIT, async () => {
    const held: string[] = [];
    const hold = ({ body, res }: StageRequest): boolean => {
      const { id } = parseRpc(body);
      if (id !== 2) return false;
      held.push('held');
      res.once('close', () => held.push('closed'));
      return true;
    };
    await legacy({ post: hold }, async (_server, bench) => {
      callEcho(bench, 2);
      await eventually(() => held.length === 1);
      bench.transport.abandon(2);
      await eventually(() => held.length === 2);
      callEcho(bench, 3);
      assert.equal(await echoed(bench, 3), 'hello');
    });
  });

  test('a POST that the server does not end after its answer on the stream is aborted', LIMIT, async () => {
    let closed = 0;
    const answering: LegacySseServer[] = [];
    const hold = ({ body, res }: StageRequest): boolean => {
      const { id } = parseRpc(body);
      res.once('close', () => closed++);
      res.writeHead(202).write('\n');
      if (id !== undefined)
        answering[0]!.push({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'hello' }] } });
      return true;
    };
    await legacy({ post: hold, limits: { lingerMs: 50 } }, async (server, bench) => {
      answering.push(server);
      for (const id of [2, 3]) callEcho(bench, id);
      for (const id of [2, 3]) assert.equal(await echoed(bench, id), 'hello');
      await eventually(() => closed === 2);
      callEcho(bench, 4);
      assert.equal(await echoed(bench, 4), 'hello');
    });
  });

  for (const [text, words] of [
    ['http://127.0.0.2:9/message', /another origin/],
    ['https://evil.example/message', /another origin/],
    ['//evil.example/message', /another origin/],
    ['http://', /names no URL/],
  ] as const) {
    test(`the endpoint ${text} is refused, and nothing is posted there`, async () => {
      const error = await openingFails(({ res }) => {
        openEvents(res);
        res.write(eventText({ name: 'endpoint', data: text }));
      });
      assert.equal(error.code, 'UPSTREAM_PROTOCOL');
      assert.equal(error.outcome, 'NOT_SENT');
      assert.match(error.message, words);
    });
  }

  test('endpoints: relative to the stream, credentials refused', () => {
    const stream = new URL('http://h:1/a/sse?x=1');
    assert.equal(String(parseEndpoint('message?s=1', stream)), 'http://h:1/a/message?s=1');
    assert.equal(String(parseEndpoint('/m', stream)), 'http://h:1/m');
    assert.equal(String(parseEndpoint('?s=2', stream)), 'http://h:1/a/sse?s=2');
    assert.match(String(parseEndpoint('http://u:p@h:1/m', stream)), /credentials/);
    assert.match(String(parseEndpoint(`/m?s=${'x'.repeat(8_192)}`, stream)), /more than 8192 characters/);
  });

  test('a second endpoint event changes nothing', () =>
    legacy({}, async (server, bench) => {
      server.write(eventText({ name: 'endpoint', data: '/elsewhere' }));
      server.push({ jsonrpc: '2.0', method: 'n' });
      await bench.receiver.until(() => bench.receiver.messages.length === 1);
      callEcho(bench, 1);
      await echoed(bench, 1);
      assert.match(server.stage.of('POST')[0]!.path, /^\/message/);
    }));

  test('S2.21 check:B5 keep-alive comments, multi-line data, other events, CRLF, split anywhere', () =>
    legacy({}, async (server, bench) => {
      const message = '{"jsonrpc":"2.0",\n"method":"é",\n"params":{"n":1.0}}';
      const text = `: ping\r\n\r\nevent: ping\r\ndata: x\r\n\r\nevent: message\r\ndata: ${message.split('\n').join('\r\ndata: ')}\r\n\r\n`;
      const bytes = Buffer.from(text);
      for (let cut = 1; cut < bytes.length; cut++) {
        server.write(bytes.subarray(0, cut));
        await new Promise((resolve) => setImmediate(resolve));
        server.write(bytes.subarray(cut));
        await bench.receiver.until(() => bench.receiver.messages.length === cut);
      }
      assert.ok(bench.receiver.messages.every(({ bytes: each }) => each.toString() === message));
    }));

  test('silence, and comments without end, are not a fault', () =>
    legacy({ client: { bodyPauseMs: 40, headTimeoutMs: 40 } }, async (server, bench) => {
      await new Promise((resolve) => setTimeout(resolve, 150));
      for (let i = 0; i < 20; i++) {
        server.write(': comment\n'.repeat(1000));
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      callEcho(bench, 1);
      assert.equal(await echoed(bench, 1), 'hello');
      assert.deepEqual(bench.receiver.closedReasons, []);
    }));

  for (const how of ['ends', 'breaks'] as const) {
    test(`S2.21 the stream ${how}: calls in flight are UNKNOWN, answered ones are not`, () =>
      legacy({ intercept: (message) => message.params?.name === 'silent' }, async (server, bench) => {
        callEcho(bench, 1);
        await echoed(bench, 1);
        for (const id of [2, 3]) {
          const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'silent' } });
          bench.transport.send([Buffer.from(body)], { request: id, method: 'tools/call', headers: null });
        }
        await server.stage.until(() => server.stage.of('POST').length === 3);
        if (how === 'ends') server.endStreams();
        else server.stage.cut();
        await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
        assert.deepEqual(
          bench.receiver.losses.map(({ request, error }) => [request, error.outcome]),
          [
            [2, 'UNKNOWN'],
            [3, 'UNKNOWN'],
          ],
        );
        assert.equal(bench.receiver.closedReasons[0]!.kind, 'unreachable');
        callEcho(bench, 4);
        assert.equal((await bench.receiver.loss(4)).outcome, 'NOT_SENT');
      }));
  }

  test('a refused POST is a loss with a reason that does not have the session id; 404 ends the session', () => {
    let status = 500;
    return legacy(
      {
        post: ({ res, path }) => {
          res.writeHead(status).end(`no such thing: ${path}`);
          return true;
        },
      },
      async (_server, bench) => {
        callEcho(bench, 1);
        const error = await bench.receiver.loss(1);
        assert.equal(error.outcome, 'UNKNOWN');
        assert.match(error.message, /mcp http status 500: no such thing/);
        assert.doesNotMatch(error.message, /legacy-session-1/);
        status = 404;
        callEcho(bench, 2);
        assert.equal((await bench.receiver.loss(2)).outcome, 'NOT_SENT');
        assert.deepEqual(bench.receiver.closedReasons, [{ kind: 'session_lost' }]);
      },
    );
  });

  test('an event over the limit is TOO_LARGE where its call is known', () =>
    legacy(
      {
        maxMessageBytes: 1000,
        intercept: (message, stream) => {
          stream.write(eventText({ data: resultOf(message, 'x'.repeat(2000)) }));
          return true;
        },
      },
      async (_server, bench) => {
        callEcho(bench, 1);
        assert.equal((await bench.receiver.loss(1)).code, 'TOO_LARGE');
      },
    ));

  const failures: [string, Parameters<typeof HttpStage.start>[0], string, RegExp, number | undefined][] = [
    ['404', ({ res }) => res.writeHead(404).end('nothing here'), 'NOT_SENT', /status 404: nothing here/, 404],
    ['500', ({ res }) => res.writeHead(500).end('oh'), 'NOT_SENT', /status 500: oh/, 500],
    ['401', ({ res }) => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end(), 'REFUSED', /credentials/, 401],
    [
      'a JSON body',
      ({ res }) => res.writeHead(200, { 'content-type': 'application/json' }).end('{}'),
      'NOT_SENT',
      /content-type application\/json/,
      undefined,
    ],
    [
      'a stream without an endpoint',
      ({ res }) => {
        openEvents(res);
        res.end(eventText({ data: '{}' }));
      },
      'NOT_SENT',
      /without an endpoint event/,
      undefined,
    ],
    ['silence', ({ res }) => openEvents(res), 'NOT_SENT', /no endpoint event within 100 ms/, undefined],
    ['no answer at all', () => {}, 'NOT_SENT', /no endpoint event within 100 ms/, undefined],
  ];
  for (const [what, respond, outcome, words, status] of failures) {
    test(`opening meets ${what}: ${outcome}`, async () => {
      const error = await openingFails(respond, words.source.includes('within') ? { limits: { endpointMs: 100 } } : {});
      assert.equal(error.outcome, outcome);
      assert.match(error.message, words);
      assert.equal(refusalOf(error)?.status, status);
    });
  }

  test('opening without a listener: NOT_SENT', async () => {
    const stage = await HttpStage.start(() => {});
    const url = `${stage.origin}/sse`;
    await stage.stop();
    const transport = makeTransport('sse', url);
    await assert.rejects(transport.open(new HttpReceiver()), { code: 'NOT_SENT' });
    await transport.close('remove');
  });

  test('closed while opening: open rejects and leaves nothing', async () => {
    const stage = await HttpStage.start(() => {});
    const transport = makeTransport('sse', `${stage.origin}/sse`);
    const opening = transport.open(new HttpReceiver());
    const rejected = assert.rejects(opening, { code: 'NOT_SENT' });
    await stage.until(() => stage.requests.length === 1);
    await transport.close('shutdown');
    await rejected;
    await stage.stop();
  });

  test('the server receives the client’s requests whole', () =>
    legacy({}, async (server, bench) => {
      callEcho(bench, 1, 'x'.repeat(100_000));
      await echoed(bench, 1);
      assert.equal(parseRpc(server.stage.of('POST')[0]!.body).params?.arguments?.['text'], 'x'.repeat(100_000));
    }));
});
