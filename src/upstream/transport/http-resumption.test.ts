import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type Bench,
  type BenchOptions,
  callEcho,
  echoed,
  eventually,
  initialize,
  openBench,
} from '../../../test/fixtures/http/bench.ts';
import { type Rpc, resultOf } from '../../../test/fixtures/http/rpc.ts';
import { eventText, openEvents, type StageRequest } from '../../../test/fixtures/http/stage.ts';
import { type StatefulOptions, StatefulServer } from '../../../test/fixtures/http/stateful.ts';
import { systemClock } from '../../model/clock.ts';

const LIMIT = { timeout: 20_000 };
/** Quick back-off, so that tests of it are quick. */
const QUICK = { reconnectMs: 10, reconnectMaxMs: 40 };

interface Stage {
  readonly server: StatefulServer;
  readonly bench: Bench;
  /** GETs with `Last-Event-ID`, which the fixture does not handle. */
  readonly polls: StageRequest[];
}

/** A server that passes calls to `first`, and GETs that resume a stream to `poll`. */
async function broken(
  first: (call: Rpc, request: StageRequest) => void,
  poll: (request: StageRequest, turn: number) => void,
  run: (stage: Stage) => Promise<void>,
  options: StatefulOptions & BenchOptions = {},
): Promise<void> {
  const polls: StageRequest[] = [];
  const server = await StatefulServer.start({
    ...options,
    intercept: (message, request) => {
      if (message.method !== 'tools/call') return false;
      first(message, request);
      return true;
    },
  });
  const handle = server.handle.bind(server);
  server.handle = (request) => {
    if (request.method !== 'GET' || request.headers['last-event-id'] === undefined) handle(request);
    else poll(request, polls.push(request));
  };
  const bench = await openBench('http', server.url, { limits: QUICK });
  try {
    await initialize(bench, 1);
    await run({ server, bench, polls });
  } finally {
    await bench.transport.close('interrupt');
    await server.stop();
  }
}

function prime(request: StageRequest, id: string, retryMs?: number): void {
  openEvents(request.res);
  request.res.write(eventText(retryMs === undefined ? { id } : { id, retryMs }));
}

const ANSWER = { content: [{ type: 'text', text: 'late but whole' }] };

describe('a reply stream that breaks off', LIMIT, () => {
  test('check:B4 closed by the server during a call: the client polls with the last event id after the server’s retry time', () => {
    let call: Rpc | null = null;
    let closedAt = 0;
    let polledAt = 0;
    return broken(
      (message, request) => {
        call = message;
        prime(request, 'call-1', 200);
        closedAt = performance.now();
        request.res.end();
      },
      (request) => {
        polledAt = performance.now();
        prime(request, 'call-2');
        request.res.write(eventText({ id: 'call-3', data: '{"jsonrpc":"2.0","method":"notifications/progress"}' }));
        request.res.end(eventText({ id: 'call-4', data: resultOf(call!, ANSWER) }));
      },
      async ({ bench, polls }) => {
        callEcho(bench, 2);
        assert.equal(await echoed(bench, 2), 'late but whole');
        assert.equal(polls[0]!.headers['last-event-id'], 'call-1');
        assert.equal(polls[0]!.headers['mcp-session-id'], 'session-1');
        assert.equal(polls[0]!.headers['mcp-protocol-version'], '2025-11-25');
        assert.equal(polls[0]!.headers['accept'], 'text/event-stream');
        assert.ok(polledAt - closedAt >= 195, `polled after ${polledAt - closedAt} ms`);
        assert.deepEqual(
          bench.receiver.messages.map(({ request }) => request),
          [1, 2, 2],
        );
        assert.deepEqual(bench.receiver.losses, []);
      },
    );
  });

  test('fault:F24 reset in the middle: the stream resumes, and each event arrives once', () => {
    let call: Rpc | null = null;
    return broken(
      (message, request) => {
        call = message;
        prime(request, '7');
        const progress = '{"jsonrpc":"2.0","method":"notifications/progress"}';
        request.res.write(eventText({ id: '8', data: progress }));
        // Half an event is no event.
        request.res.write(`id: 9\ndata: {"jsonrpc"`, () => setTimeout(() => request.res.socket?.resetAndDestroy(), 20));
      },
      (request) => {
        openEvents(request.res);
        request.res.end(eventText({ id: '9', data: resultOf(call!, ANSWER) }));
      },
      async ({ bench, polls }) => {
        callEcho(bench, 2);
        assert.equal(await echoed(bench, 2), 'late but whole');
        assert.equal(polls[0]!.headers['last-event-id'], '8');
        assert.equal(bench.receiver.messages.length, 3);
      },
    );
  });

  test('the client resumes as often as the server closes, with any characters in ids', () => {
    let call: Rpc | null = null;
    return broken(
      (message, request) => {
        call = message;
        prime(request, 'é/0', 1);
        request.res.end();
      },
      (request, turn) => {
        prime(request, `é/${turn}`);
        request.res.end(turn < 12 ? '' : eventText({ data: resultOf(call!, ANSWER) }));
      },
      async ({ bench, polls }) => {
        callEcho(bench, 2);
        assert.equal(await echoed(bench, 2), 'late but whole');
        assert.deepEqual(
          polls.map(({ headers }) => Buffer.from(headers['last-event-id'] as string, 'latin1').toString()),
          Array.from({ length: 12 }, (_, i) => `é/${i}`),
        );
      },
    );
  });

  test('the client waits when it gets 503 now and then', () => {
    let call: Rpc | null = null;
    return broken(
      (message, request) => {
        call = message;
        prime(request, 'a', 1);
        request.res.end();
      },
      (request, turn) => {
        if (turn < 4) request.res.writeHead(503).end();
        else {
          openEvents(request.res);
          request.res.end(eventText({ data: resultOf(call!, ANSWER) }));
        }
      },
      async ({ bench }) => {
        callEcho(bench, 2);
        assert.equal(await echoed(bench, 2), 'late but whole');
      },
    );
  });

  for (const [what, status] of [
    ['refused', 400],
    ['not offered', 405],
    ['failing again and again', 503],
  ] as const) {
    test(`resumption ${what} (${status}): UNKNOWN, and the connection stays open`, () =>
      broken(
        (_message, request) => {
          prime(request, 'a', 1);
          request.res.end();
        },
        (request) => request.res.writeHead(status).end(),
        async ({ bench, polls }) => {
          callEcho(bench, 2);
          const error = await bench.receiver.loss(2);
          assert.equal(error.outcome, 'UNKNOWN');
          assert.equal(polls.length, status === 503 ? 5 : 1);
          assert.deepEqual(bench.receiver.closedReasons, []);
        },
      ));
  }

  test('fault:F22 the session is gone by then: the call is UNKNOWN and the connection ends', () =>
    broken(
      (_message, request) => {
        prime(request, 'a', 1);
        request.res.end();
      },
      (request) => request.res.writeHead(404).end(),
      async ({ bench }) => {
        callEcho(bench, 2);
        await bench.receiver.until(() => bench.receiver.closedReasons.length > 0);
        assert.deepEqual(bench.receiver.closedReasons, [{ kind: 'session_lost' }]);
        assert.deepEqual(
          bench.receiver.losses.map(({ request, error }) => [request, error.outcome]),
          [[2, 'UNKNOWN']],
        );
      },
    ));

  test('without an event id the stream cannot resume: UNKNOWN', () =>
    broken(
      (_message, request) => {
        openEvents(request.res);
        request.res.end(eventText({ data: '{"jsonrpc":"2.0","method":"notifications/progress"}' }));
      },
      (request) => request.res.writeHead(500).end(),
      async ({ bench, polls }) => {
        callEcho(bench, 2);
        assert.equal((await bench.receiver.loss(2)).outcome, 'UNKNOWN');
        assert.equal(polls.length, 0);
      },
    ));

  test('abandoned while the client polls: no more polls, no loss', () =>
    broken(
      (_message, request) => {
        prime(request, 'a', 1);
        request.res.end();
      },
      (request, turn) => {
        prime(request, `b${turn}`);
        request.res.end();
      },
      async ({ bench, server, polls }) => {
        callEcho(bench, 2);
        await server.stage.until(() => polls.length >= 2);
        bench.transport.abandon(2);
        const before = polls.length;
        await new Promise((resolve) => setTimeout(resolve, 100));
        assert.ok(polls.length <= before + 1);
        assert.deepEqual(bench.receiver.losses, []);
      },
    ));
});

describe('the GET stream', LIMIT, () => {
  test('check:B4 reconnects with the last event id; each message arrives once', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const bench = await openBench('http', server.url, { limits: QUICK });
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    await server.stage.until(() => server.listening);
    const names: string[] = [];
    for (let i = 0; i < 6; i++) {
      names.push(`n/${i}`);
      server.push({ jsonrpc: '2.0', method: `n/${i}` });
      await bench.receiver.until(() => bench.receiver.messages.length === 1 + names.length);
      // In turn: a regular end, an end with a retry time, and a reset.
      if (i % 3 === 0) server.endListening();
      else if (i % 3 === 1) server.endListening(5);
      else server.stage.cut();
      names.push(`while-away/${i}`);
      server.push({ jsonrpc: '2.0', method: `while-away/${i}` });
      await bench.receiver.until(() => bench.receiver.messages.length === 1 + names.length);
    }
    const heard = bench.receiver.messages.slice(1).map(({ bytes }) => JSON.parse(bytes.toString()).method);
    assert.deepEqual(heard, names);
    assert.equal(bench.receiver.misses, 0);
  });

  test('reports a gap when the server cannot replay it', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const bench = await openBench('http', server.url, { limits: QUICK });
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    await server.stage.until(() => server.listening);
    server.endListening();
    await eventually(() => bench.receiver.misses === 1);
    assert.deepEqual(bench.receiver.losses, []);
  });

  test('check:C9 can be closed by one transport and resumed by another one from the last event id', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const bench = await openBench('http', server.url, { limits: QUICK });
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    await server.stage.until(() => server.listening);
    server.push({ jsonrpc: '2.0', method: 'n/1' });
    await bench.receiver.until(() => bench.receiver.messages.length === 2);
    const after = bench.transport.silence!();
    assert.ok(after !== null);
    await eventually(() => !server.listening);
    server.push({ jsonrpc: '2.0', method: 'while-away' });
    const gets = server.stage.of('GET').length;
    const other = await openBench('http', server.url, { limits: QUICK });
    t.after(() => other.transport.close('interrupt'));
    const resumeSessionId = bench.receiver.sessionIds[0]!;
    other.transport.negotiated({ era: 'stateful', revision: '2025-11-25', resumeSessionId, silent: true });
    assert.equal(other.transport.silence!(), null);
    other.transport.listen!(after, false);
    await other.receiver.until(() => other.receiver.messages.length === 1);
    assert.equal(JSON.parse(other.receiver.messages[0]!.bytes.toString()).method, 'while-away');
    assert.equal(server.stage.of('GET').length, gets + 1);
    assert.equal(other.receiver.misses, 0);
    assert.equal(bench.receiver.messages.length, 2);
    // Without a last event id, messages may have been missed.
    other.transport.silence!();
    await eventually(() => !server.listening);
    other.transport.listen!(null, true);
    await eventually(() => other.receiver.misses === 1);
  });

  test('is requested again if the server answers 409', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const handle = server.handle.bind(server);
    let refused = 0;
    server.handle = (request) => {
      if (request.method === 'GET' && refused++ < 2) request.res.writeHead(409).end();
      else handle(request);
    };
    const bench = await openBench('http', server.url, { limits: QUICK });
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    await server.stage.until(() => server.listening);
    assert.equal(refused, 3);
  });

  test('is requested at a limited pace if it ends at once every time', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const handle = server.handle.bind(server);
    server.handle = (request) => {
      handle(request);
      if (request.method === 'GET') server.endListening(0);
    };
    const bench = await openBench('http', server.url, { limits: { reconnectMs: 40, reconnectMaxMs: 10_000 } });
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    await new Promise((resolve) => setTimeout(resolve, 700));
    assert.ok(server.stage.of('GET').length < 12, `${server.stage.of('GET').length} times`);
  });

  test('is requested at growing intervals if the server refuses connections after a long time', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    let shiftMs = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + shiftMs };
    const bench = await openBench('http', server.url, { clock, limits: { reconnectMs: 40, reconnectMaxMs: 10_000 } });
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    await server.stage.until(() => server.listening);
    server.push({ jsonrpc: '2.0', method: 'n' });
    await bench.receiver.until(() => bench.receiver.messages.length === 2);
    shiftMs = 60_000;
    const before = server.stage.of('GET').length;
    server.handle = ({ res }) => void res.socket!.destroy();
    server.endListening(1);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const attempts = server.stage.of('GET').length - before;
    assert.ok(attempts > 0 && attempts < 8, `${attempts} times`);
  });

  test('without event ids it is requested at most once a second, since each opening may miss messages', async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const handle = server.handle.bind(server);
    server.handle = (request) => {
      if (request.method !== 'GET') return handle(request);
      openEvents(request.res);
      request.res.end(eventText({ data: '{"jsonrpc":"2.0","method":"n"}', retryMs: 0 }));
    };
    const bench = await openBench('http', server.url, { limits: QUICK });
    t.after(() => bench.transport.close('interrupt'));
    await initialize(bench, 1);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    assert.ok(bench.receiver.misses <= 1, `${bench.receiver.misses} times`);
  });
});
