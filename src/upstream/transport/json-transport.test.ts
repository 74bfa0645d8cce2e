import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ask, type Bench, callEcho, echoed, initialize, notify, openBench } from '../../../test/fixtures/http/bench.ts';
import { type PlainJsonOptions, PlainJsonServer } from '../../../test/fixtures/http/plain-json.ts';
import { openEvents } from '../../../test/fixtures/http/stage.ts';
import { refusalOf } from './http-refusal.ts';

const LIMIT = { timeout: 20_000 };

async function plain(
  options: PlainJsonOptions,
  run: (server: PlainJsonServer, bench: Bench) => Promise<void>,
): Promise<void> {
  const server = await PlainJsonServer.start(options);
  const bench = await openBench('json', server.url, {
    headers: { 'X-Key': 'the-key-itself' },
    maxMessageBytes: 50_000,
  });
  try {
    await run(server, bench);
  } finally {
    await bench.transport.close('remove');
    await server.stop();
  }
}

describe('plain JSON over POST', LIMIT, () => {
  test('S4.4 check:B6 one POST per message, a JSON reply, no session, no stream', () =>
    plain({}, async (server, bench) => {
      await initialize(bench, 1, '2024-11-05');
      for (let id = 2; id < 6; id++) callEcho(bench, id, `text ${id}`);
      for (let id = 2; id < 6; id++) assert.equal(await echoed(bench, id), `text ${id}`);
      assert.deepEqual(bench.receiver.messages.map(({ request }) => request).sort(), [1, 2, 3, 4, 5]);
      const { requests } = server.stage;
      assert.ok(requests.every(({ method }) => method === 'POST'));
      assert.equal(requests.length, 6);
      for (const { headers } of requests) {
        assert.equal(headers['accept'], 'application/json');
        assert.equal(headers['content-type'], 'application/json');
        assert.equal(headers['x-key'], 'the-key-itself');
        assert.equal(headers['mcp-session-id'], undefined);
      }
      await bench.transport.close('remove');
      assert.equal(requests.length, 6);
    }));

  for (const status of [400, 404, 500, 503]) {
    test(`S4.4 a status other than success is an error with a reason: ${status}`, () =>
      plain(
        {
          intercept: (_message, { res }) => {
            res.writeHead(status, { 'content-type': 'application/json' }).end('{"why":"the-key-itself\\n"}');
            return true;
          },
        },
        async (_server, bench) => {
          callEcho(bench, 1);
          const error = await bench.receiver.loss(1);
          assert.equal(error.message, `fixture: mcp http status ${status}: {"why":"[redacted]\\n"}`);
          assert.equal(error.outcome, status < 500 ? 'NOT_SENT' : 'UNKNOWN');
          assert.equal(refusalOf(error)?.status, status);
          assert.deepEqual(bench.receiver.closedReasons, []);
        },
      ));
  }

  test('S4.4 the text of an error is bounded', () =>
    plain(
      {
        intercept: (_message, { res }) => {
          res.writeHead(500).end('x'.repeat(40_000));
          return true;
        },
      },
      async (_server, bench) => {
        callEcho(bench, 1);
        assert.ok((await bench.receiver.loss(1)).message.length < 600);
      },
    ));

  test('an event stream is not accepted as an answer', () =>
    plain(
      {
        intercept: (_message, { res }) => {
          openEvents(res);
          res.end('data: {}\n\n');
          return true;
        },
      },
      async (_server, bench) => {
        callEcho(bench, 1);
        const error = await bench.receiver.loss(1);
        assert.equal(error.code, 'UPSTREAM_PROTOCOL');
        assert.match(error.message, /text\/event-stream/);
      },
    ));

  test('any answer to a notification is ignored', () =>
    plain(
      {
        intercept: (message, { res }) => {
          if (message.method !== 'n') return false;
          res.writeHead(500).end('no');
          return true;
        },
      },
      async (_server, bench) => {
        notify(bench, 'n');
        notify(bench, 'notifications/cancelled');
        ask(bench, 1, 'ping');
        await bench.receiver.answer(1);
        assert.deepEqual(bench.receiver.order, ['received 1']);
      },
    ));

  test('credentials not accepted: REFUSED, and the connection ends', () =>
    plain(
      {
        intercept: (_message, { res }) => {
          res.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
          return true;
        },
      },
      async (_server, bench) => {
        callEcho(bench, 1);
        await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
        assert.deepEqual(bench.receiver.order, ['lost 1', 'closed']);
        assert.equal(bench.receiver.losses[0]!.error.code, 'AUTH_REQUIRED');
        callEcho(bench, 2);
        assert.equal((await bench.receiver.loss(2)).outcome, 'NOT_SENT');
      },
    ));

  test('messages posted just before the end are still sent', () =>
    plain({}, async (server, bench) => {
      notify(bench, 'notifications/cancelled');
      await bench.transport.close('shutdown');
      assert.equal(server.stage.requests.length, 1);
    }));
});
