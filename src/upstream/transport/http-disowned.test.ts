import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  ask,
  type Bench,
  type BenchOptions,
  callEcho,
  echoed,
  initialize,
  notify,
  openBench,
} from '../../../test/fixtures/http/bench.ts';
import { errorOf } from '../../../test/fixtures/http/rpc.ts';
import { openEvents, sendJson } from '../../../test/fixtures/http/stage.ts';
import { type StatefulOptions, StatefulServer } from '../../../test/fixtures/http/stateful.ts';
import { refusalOf } from './http-refusal.ts';

const LIMIT = { timeout: 20_000 };
const PARALLEL = 32;
/** For a test in which every request gets an answer: the transport waits for it, also on a slow machine. */
const PATIENT = { limits: { settleMs: 15_000 } };

async function withServer(
  options: StatefulOptions,
  run: (server: StatefulServer, bench: Bench) => Promise<void>,
  { headers = {}, limits = {} }: Pick<BenchOptions, 'headers' | 'limits'> = {},
): Promise<void> {
  const server = await StatefulServer.start(options);
  const bench = await openBench('http', server.url, { headers, limits, maxMessageBytes: 100_000 });
  try {
    await run(server, bench);
  } finally {
    await bench.transport.close('interrupt');
    await server.stop();
  }
}

describe('the server disowns the connection', LIMIT, () => {
  for (const unknownSession of [404, 400]) {
    test(`fault:F22 session lost (${unknownSession}): ${PARALLEL} calls at once are all safe to retry`, () =>
      withServer(
        { unknownSession },
        async (server, bench) => {
          await initialize(bench, 1);
          callEcho(bench, 2);
          await echoed(bench, 2);
          server.forgetSessions();
          for (let id = 10; id < 10 + PARALLEL; id++) callEcho(bench, id);
          await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
          assert.deepEqual(bench.receiver.closedReasons, [{ kind: 'session_lost' }]);
          assert.equal(bench.receiver.order.at(-1), 'closed');
          assert.equal(bench.receiver.losses.length, PARALLEL);
          assert.deepEqual(
            bench.receiver.losses.filter(({ error }) => error.outcome !== 'NOT_SENT'),
            [],
          );
          callEcho(bench, 99);
          assert.equal((await bench.receiver.loss(99)).outcome, 'NOT_SENT');
          await bench.transport.close('remove');
          assert.equal(server.stage.of('DELETE').length, 0);
        },
        PATIENT,
      ));
  }

  test('fault:F22 a call that runs when the session is lost is UNKNOWN; one sent afterwards is NOT_SENT', () =>
    withServer(
      {
        listen: 405,
        intercept: (message, { res }) => {
          if (message.params?.name !== 'slow') return false;
          openEvents(res);
          return true;
        },
      },
      async (server, bench) => {
        await initialize(bench, 1);
        ask(bench, 2, 'tools/call', { name: 'slow' });
        ask(bench, 3, 'tools/call', { name: 'slow' });
        await server.stage.until(() => server.stage.requests.length === 5);
        server.forgetSessions();
        callEcho(bench, 4);
        await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
        const outcomes = Object.fromEntries(
          bench.receiver.losses.map(({ request, error }) => [request, error.outcome]),
        );
        assert.deepEqual(outcomes, { 2: 'UNKNOWN', 3: 'UNKNOWN', 4: 'NOT_SENT' });
      },
    ));

  test('fault:F22 a request without an answer delays the end for a moment only', () =>
    withServer({ listen: 405, intercept: (message) => message.params?.name === 'silent' }, async (server) => {
      const bench = await openBench('http', server.url, { limits: { settleMs: 60 } });
      await initialize(bench, 1);
      ask(bench, 2, 'tools/call', { name: 'silent' });
      await server.stage.until(() => server.stage.requests.some(({ body }) => /silent/.test(body.toString())));
      server.forgetSessions();
      callEcho(bench, 3);
      await server.stage.until(() => server.stage.requests.some(({ body }) => /"id":3/.test(body.toString())));
      callEcho(bench, 4);
      assert.equal(bench.receiver.closedReasons.length, 0);
      await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
      const outcomes = Object.fromEntries(bench.receiver.losses.map(({ request, error }) => [request, error.outcome]));
      assert.deepEqual(outcomes, { 2: 'UNKNOWN', 3: 'NOT_SENT', 4: 'NOT_SENT' });
      await bench.transport.close('interrupt');
    }));

  test('fault:F22 the gateway notices without a call that a resumed session is gone', () =>
    withServer({}, async (_server, bench) => {
      bench.transport.negotiated({ era: 'stateful', revision: '2025-11-25', resumeSessionId: 'of-long-ago' });
      await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
      assert.deepEqual(bench.receiver.closedReasons, [{ kind: 'session_lost' }]);
    }));

  test('fault:F22 a notification that meets a lost session ends the connection', () =>
    withServer({ listen: 405 }, async (server, bench) => {
      await initialize(bench, 1);
      ask(bench, 2, 'ping');
      await bench.receiver.answer(2);
      server.forgetSessions();
      notify(bench, 'notifications/roots/list_changed');
      await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
      assert.deepEqual(bench.receiver.closedReasons, [{ kind: 'session_lost' }]);
    }));

  test('a 400 within a live session is the server’s answer', () =>
    withServer(
      {
        listen: 405,
        intercept: (message, { res }) => {
          if (message.method !== 'tools/call') return false;
          sendJson(res, 400, errorOf(message, -32600, 'Bad Request'));
          return true;
        },
      },
      async (_server, bench) => {
        await initialize(bench, 1);
        callEcho(bench, 2);
        const { bytes, request } = await bench.receiver.answer(2);
        assert.equal(request, 2);
        assert.equal(JSON.parse(bytes.toString()).error.code, -32600);
        assert.deepEqual(bench.receiver.closedReasons, []);
      },
    ));

  test(`credentials not accepted: ${PARALLEL} calls at once, all REFUSED, one end with the challenge`, () => {
    let valid = true;
    return withServer(
      {
        listen: 405,
        intercept: (_message, { res }) => {
          if (valid) return false;
          res.writeHead(401, { 'www-authenticate': 'Bearer resource_metadata="http://127.0.0.1/x"' }).end();
          return true;
        },
      },
      async (_server, bench) => {
        await initialize(bench, 1);
        ask(bench, 2, 'ping');
        await bench.receiver.answer(2);
        valid = false;
        for (let id = 10; id < 10 + PARALLEL; id++) callEcho(bench, id);
        await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
        const challenge = 'Bearer resource_metadata="http://127.0.0.1/x"';
        assert.deepEqual(bench.receiver.closedReasons, [{ kind: 'auth_required', challenge }]);
        assert.equal(bench.receiver.losses.length, PARALLEL);
        for (const { error } of bench.receiver.losses) {
          assert.equal(error.code, 'AUTH_REQUIRED');
          assert.equal(error.outcome, 'REFUSED');
          assert.equal(refusalOf(error)?.challenge, challenge);
        }
      },
      PATIENT,
    );
  });

  for (const status of [401, 403]) {
    test(`${status} at the handshake: auth_required at once`, () =>
      withServer(
        {
          intercept: (_message, { res }) => {
            res.writeHead(status).end('who are you?');
            return true;
          },
        },
        async (_server, bench) => {
          ask(bench, 1, 'initialize');
          await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
          assert.deepEqual(bench.receiver.order, ['lost 1', 'closed']);
          assert.equal(bench.receiver.losses[0]!.error.code, 'AUTH_REQUIRED');
          const forbidden = status === 403 ? { status } : {};
          assert.deepEqual(bench.receiver.closedReasons, [{ kind: 'auth_required', challenge: null, ...forbidden }]);
        },
      ));
  }
});
