import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  ask,
  type Bench,
  type BenchOptions,
  callEcho,
  initialize,
  openBench,
} from '../../../test/fixtures/http/bench.ts';
import { errorOf } from '../../../test/fixtures/http/rpc.ts';
import { type StatefulOptions, StatefulServer } from '../../../test/fixtures/http/stateful.ts';
import { ResponseHeaders } from '../../http/client/response-headers.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { parseRetryAfter, refusalError, refusalOf } from './http-refusal.ts';

const LIMIT = { timeout: 20_000 };

async function withServer(
  options: StatefulOptions,
  run: (server: StatefulServer, bench: Bench) => Promise<void>,
  { headers = {} }: Pick<BenchOptions, 'headers'> = {},
): Promise<void> {
  const server = await StatefulServer.start(options);
  const bench = await openBench('http', server.url, { headers, maxMessageBytes: 100_000 });
  try {
    await run(server, bench);
  } finally {
    await bench.transport.close('interrupt');
    await server.stop();
  }
}

/** Every `tools/call` gets this instead of an answer. */
function callsGet(status: number, headers: Record<string, string>, body: string): StatefulOptions {
  return {
    listen: 405,
    intercept: (message, { res }) => {
      if (message.method !== 'tools/call') return false;
      res.writeHead(status, headers).end(body);
      return true;
    },
  };
}

describe('statuses instead of answers', LIMIT, () => {
  const JSON_TYPE = { 'content-type': 'application/json' };
  const TEXT = { 'content-type': 'text/plain' };
  const cases: [string, number, Record<string, string>, string, object, RegExp][] = [
    [
      '4xx',
      418,
      TEXT,
      'short and stout',
      { code: 'NOT_SENT', retryable: false },
      /mcp http status 418: short and stout$/,
    ],
    [
      'fault:F23 5xx',
      502,
      TEXT,
      'Bad Gateway',
      { code: 'UNKNOWN', retryable: false },
      /mcp http status 502: Bad Gateway/,
    ],
    ['fault:F23 503', 503, TEXT, '', { code: 'UNKNOWN' }, /mcp http status 503$/],
    [
      'fault:F23 503 with Retry-After',
      503,
      { 'Retry-After': '7' },
      '',
      { code: 'OVERLOADED', retryAfterMs: 7000 },
      /503/,
    ],
    [
      'fault:F23 429 with Retry-After',
      429,
      { 'Retry-After': '30' },
      '',
      { code: 'OVERLOADED', retryAfterMs: 30_000 },
      /429/,
    ],
    ['fault:F23 429', 429, TEXT, 'slow down', { code: 'OVERLOADED', retryable: true }, /429: slow down/],
    [
      'fault:F23 429 with a Retry-After that is too long',
      429,
      { 'Retry-After': '31' },
      '',
      { code: 'OVERLOADED', retryable: false, retryAfterMs: undefined },
      /come back in 31 s/,
    ],
    [
      'a redirect',
      307,
      { location: 'http://127.0.0.1:9/new?key=abc' },
      '',
      { code: 'UPSTREAM_PROTOCOL', outcome: 'NOT_SENT' },
      /redirects are not followed.*http:\/\/127\.0\.0\.1:9\/new\)/,
    ],
    ['403', 403, TEXT, 'not you', { code: 'AUTH_REQUIRED', outcome: 'REFUSED' }, /not you/],
    ['no content type', 200, {}, 'hello', { code: 'UPSTREAM_PROTOCOL', outcome: 'UNKNOWN' }, /no content-type/],
    ['HTML', 200, { 'content-type': 'text/html' }, '<p>', { code: 'UPSTREAM_PROTOCOL' }, /content-type text\/html/],
    ['an empty answer', 200, JSON_TYPE, '', { code: 'UPSTREAM_PROTOCOL' }, /the reply is empty/],
    ['202 to a request', 202, {}, '', { code: 'UPSTREAM_PROTOCOL' }, /status 202 is no answer/],
    [
      'compression that was not requested',
      200,
      { ...JSON_TYPE, 'content-encoding': 'gzip' },
      'x',
      { code: 'UPSTREAM_PROTOCOL' },
      /gzip/,
    ],
    [
      'an answer over the limit',
      200,
      JSON_TYPE,
      `"${'x'.repeat(100_000)}"`,
      { code: 'TOO_LARGE', outcome: 'UNKNOWN' },
      /100000 bytes/,
    ],
    [
      'an event over the limit',
      200,
      { 'content-type': 'text/event-stream' },
      `data: "${'x'.repeat(100_000)}"\n\n`,
      { code: 'TOO_LARGE' },
      /100000 bytes/,
    ],
  ];
  for (const [what, status, headers, body, expected, words] of cases) {
    test(`${what}: ${JSON.stringify(expected)}, and the connection stays open`, () =>
      withServer(callsGet(status, headers, body), async (_server, bench) => {
        await initialize(bench, 1);
        callEcho(bench, 2);
        const error = await bench.receiver.loss(2);
        assert.match(error.message, words);
        const seen: Record<string, unknown> = { code: error.code, ...error.data };
        for (const [key, value] of Object.entries(expected)) assert.equal(seen[key], value, key);
        ask(bench, 3, 'ping');
        await bench.receiver.answer(3);
        assert.equal(bench.receiver.losses.length, 1);
        assert.deepEqual(bench.receiver.closedReasons, []);
      }));
  }

  test('the client counts an endless JSON body and does not keep it', () => {
    let sent = 0;
    return withServer(
      {
        listen: 405,
        intercept: (message, { res }) => {
          if (message.method !== 'tools/call') return false;
          res.writeHead(200, { 'content-type': 'application/json' });
          const pour = (): void => {
            while (!res.destroyed && res.write('x'.repeat(10_000))) sent += 10_000;
            if (!res.destroyed) res.once('drain', pour);
          };
          pour();
          return true;
        },
      },
      async (_server, bench) => {
        await initialize(bench, 1);
        callEcho(bench, 2);
        assert.equal((await bench.receiver.loss(2)).code, 'TOO_LARGE');
        assert.ok(sent < 20_000_000);
      },
    );
  });

  for (const [status, id, delivered] of [
    [400, null, true],
    [404, null, true],
    [422, 2, true],
    [400, 'server-error', false],
    [404, 3, false],
    [500, 2, true],
    [500, null, false],
    [403, 2, true],
    [403, null, false],
    [429, 2, false],
  ] as const) {
    test(`a JSON-RPC error with status ${status} and id ${id} is ${delivered ? 'the answer' : 'a loss'}`, () =>
      withServer(
        {
          ...callsGet(
            status,
            JSON_TYPE,
            errorOf(id === null ? null : { jsonrpc: '2.0', id }, -32000, 'the words of the server'),
          ),
          session: false,
        },
        async (_server, bench) => {
          await initialize(bench, 1);
          callEcho(bench, 2);
          await bench.receiver.until(() => bench.receiver.messages.length + bench.receiver.losses.length === 2);
          assert.equal(bench.receiver.messages.length, delivered ? 2 : 1);
          if (delivered) assert.equal(bench.receiver.messages[1]!.request, 2);
          else assert.match(bench.receiver.losses[0]!.error.message, /the words of the server/);
        },
      ));
  }

  test('HTTP+SSE is tried after certain statuses of the first POST', async () => {
    for (const status of [400, 404, 405]) {
      await withServer(
        {
          intercept: (_message, { res }) => {
            res.writeHead(status).end('Cannot POST /mcp');
            return true;
          },
        },
        async (_server, bench) => {
          ask(bench, 1, 'initialize');
          const error = await bench.receiver.loss(1);
          assert.equal(refusalOf(error)?.status, status);
          assert.equal(error.outcome, 'NOT_SENT');
          assert.deepEqual(bench.receiver.closedReasons, []);
        },
      );
    }
  });

  test('no error shows a secret that the server sends back', () => {
    const session = 'session-1';
    const secrets = { Authorization: 'Bearer s3cr3t-token', 'X-Api-Key': 'k3y-of-the-house' };
    const body = `you sent ${Object.values(secrets).join(', ')} (s3cr3t-token) in ${session}\u001b[31m`;
    return withServer(
      callsGet(500, TEXT, body),
      async (_server, bench) => {
        await initialize(bench, 1);
        callEcho(bench, 2);
        const { message } = await bench.receiver.loss(2);
        assert.match(message, /you sent \[redacted\], \[redacted\] \(\[redacted\]\) in \[redacted\]/);
        assert.doesNotMatch(message, /s3cr3t|k3y-of|session-1|\u001b/);
      },
      { headers: secrets },
    );
  });

  test('fault:F20 callers get the status of a 401 or 403 and nothing of its page; the operator can read the page', () => {
    const context = { server: 'a', secrets: [], wallMs: 0 };
    for (const status of [401, 403]) {
      const error = refusalError(context, status, new ResponseHeaders([]), Buffer.from('the page behind the login'));
      assert.match(error.message, /the page behind the login/);
      for (const reported of [error, new GatewayError('AUTH_REQUIRED', error.message, { cause: error })]) {
        assert.match(reported.forCallers, new RegExp(`mcp http status ${status}`));
        assert.doesNotMatch(reported.forCallers, /page/);
      }
    }
  });

  test('Retry-After: seconds and dates', () => {
    const now = Date.parse('Fri, 20 Nov 2026 20:00:00 GMT');
    assert.equal(parseRetryAfter('12', now), 12_000);
    assert.equal(parseRetryAfter('Fri, 20 Nov 2026 20:00:05 GMT', now), 5000);
    assert.equal(parseRetryAfter('Fri, 20 Nov 2026 19:00:00 GMT', now), 0);
    assert.equal(parseRetryAfter('soon', now), null);
  });
});
