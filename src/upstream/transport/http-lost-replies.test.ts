import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { describe, test } from 'node:test';
import {
  ask,
  type Bench,
  type BenchOptions,
  callEcho,
  echoed,
  eventually,
  openBench,
} from '../../../test/fixtures/http/bench.ts';
import { RawServer } from '../../../test/fixtures/http/raw.ts';
import { StatelessServer } from '../../../test/fixtures/http/stateless.ts';

const LIMIT = { timeout: 20_000 };
const OFFSETS = 20;

async function withRaw(
  server: RawServer,
  options: BenchOptions,
  run: (bench: Bench) => Promise<void>,
  type: 'http' | 'json' = 'http',
): Promise<void> {
  const bench = await openBench(type, server.url, options);
  bench.transport.negotiated({ era: 'stateless', revision: '2026-07-28' });
  try {
    await run(bench);
  } finally {
    await bench.transport.close('interrupt');
    await server.stop();
  }
}

function idOf(request: string): number {
  return JSON.parse(request.slice(request.indexOf('\r\n\r\n') + 4)).id;
}

/** The whole response to a call, head and body. */
function response(id: number, type: 'json' | 'events'): string {
  const answer = JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'hello' }] } });
  const body = type === 'json' ? answer : `id: 1\nevent: message\ndata: ${answer}\n\n`;
  const media = type === 'json' ? 'application/json' : 'text/event-stream';
  return `HTTP/1.1 200 OK\r\nContent-Type: ${media}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Offsets at which to cut a text of this length, first and last byte included. */
function offsets(length: number): number[] {
  return Array.from({ length: OFFSETS }, (_, i) => Math.round((i * (length - 1)) / (OFFSETS - 1)));
}

describe('lost replies', LIMIT, () => {
  for (const type of ['json', 'events'] as const) {
    for (const how of ['end', 'reset'] as const) {
      test(`fault:F24 the reply (${type}) is lost by ${how} at each of ${OFFSETS} byte offsets: UNKNOWN, run once`, async () => {
        const cuts = offsets(response(10, type).length);
        const server = await RawServer.start((socket, request) => {
          const id = idOf(request);
          // Calls alternate: one is cut, the next gets its answer and makes the connection a kept one.
          if (id % 2 === 1) {
            socket.write(response(id, type));
            return;
          }
          socket.write(response(id, type).slice(0, cuts[(id - 100) / 2]), () => {
            if (how === 'end') socket.end();
            else socket.resetAndDestroy();
          });
        });
        await withRaw(server, {}, async (bench) => {
          for (let id = 100; id < 100 + 2 * OFFSETS; id++) {
            callEcho(bench, id);
            if (id % 2 === 1) {
              assert.equal(await echoed(bench, id), 'hello');
              continue;
            }
            const error = await bench.receiver.loss(id);
            assert.equal(error.outcome, 'UNKNOWN');
            assert.equal(error.data.retryable, false);
          }
          const ids = server.ledger.map(idOf);
          assert.deepEqual(
            ids,
            Array.from({ length: 2 * OFFSETS }, (_, i) => 100 + i),
          );
          assert.equal(bench.receiver.losses.length, OFFSETS);
        });
      });
    }
  }

  test(`fault:F24 the connection is reset at each of ${OFFSETS} byte offsets of the request: never sent twice`, async () => {
    const text = 'x'.repeat(400_000);
    const cuts = offsets(300_000);
    let turn = 0;
    const server = await RawServer.start(
      () => {},
      (socket, bytes) => {
        if (bytes > cuts[turn]!) socket.resetAndDestroy();
      },
    );
    await withRaw(server, {}, async (bench) => {
      for (turn = 0; turn < OFFSETS; turn++) {
        callEcho(bench, 200 + turn, text);
        assert.equal((await bench.receiver.loss(200 + turn)).outcome, 'UNKNOWN');
      }
      assert.equal(bench.receiver.losses.length, OFFSETS);
      assert.deepEqual(server.ledger, []);
    });
  });

  for (const method of ['initialize', 'server/discover']) {
    for (const how of ['end', 'reset'] as const) {
      test(`fault:F24 a kept connection that ends (${how}) as ${method} is sent: it is sent once more, on a new one`, async () => {
        const kept = new WeakSet<Socket>();
        const parallel = Promise.withResolvers<void>();
        const server = await RawServer.start((socket, request) => {
          // Every connection is good for one request; the first two are opened together.
          if (kept.has(socket)) how === 'end' ? socket.end() : socket.resetAndDestroy();
          else if (server.ledger.length > 2) socket.write(response(idOf(request), 'json'));
          else void parallel.promise.then(() => socket.write(response(idOf(request), 'json')));
          kept.add(socket);
          if (server.ledger.length === 2) parallel.resolve();
        });
        await withRaw(server, {}, async (bench) => {
          for (const id of [1, 2]) callEcho(bench, id);
          for (const id of [1, 2]) await echoed(bench, id);
          ask(bench, 3, method);
          await bench.receiver.answer(3);
          callEcho(bench, 4);
          assert.equal((await bench.receiver.loss(4)).outcome, 'UNKNOWN');
          assert.deepEqual(server.ledger.map(idOf), [1, 2, 3, 3, 4]);
        });
      });
    }
  }

  test('fault:F24 initialize is not repeated if a new connection ends, and is repeated once if a kept one does', async () => {
    let answers = 0;
    const server = await RawServer.start((socket, request) => {
      if (answers-- > 0) socket.write(response(idOf(request), 'json'));
      else socket.end();
    });
    await withRaw(server, {}, async (bench) => {
      ask(bench, 1, 'initialize');
      assert.equal((await bench.receiver.loss(1)).outcome, 'UNKNOWN');
      answers = 1;
      callEcho(bench, 2);
      await echoed(bench, 2);
      ask(bench, 3, 'initialize');
      assert.equal((await bench.receiver.loss(3)).outcome, 'UNKNOWN');
      assert.deepEqual(server.ledger.map(idOf), [1, 2, 3, 3]);
    });
  });

  test('fault:F24 no listener: NOT_SENT, and retryable', async () => {
    const server = await RawServer.start(() => {});
    const { url } = server;
    await server.stop();
    for (const type of ['http', 'json'] as const) {
      const bench = await openBench(type, url);
      callEcho(bench, 1);
      const error = await bench.receiver.loss(1);
      assert.equal(error.outcome, 'NOT_SENT');
      assert.equal(error.data.retryable, true);
      assert.deepEqual(bench.receiver.closedReasons, []);
      await bench.transport.close('remove');
    }
  });
});

describe('slow servers', LIMIT, () => {
  test('fault:F25 a response head that has begun must be complete in time', async () => {
    const server = await RawServer.start((socket) => {
      let at = 0;
      const drip = setInterval(() => {
        if (socket.destroyed) clearInterval(drip);
        else socket.write('HTTP/1.1 200 OK\r\nX-Slow: y'.charAt(at++) || 'y');
      }, 10);
    });
    await withRaw(server, { client: { headTimeoutMs: 100 } }, async (bench) => {
      callEcho(bench, 1);
      const error = await bench.receiver.loss(1);
      assert.equal(error.outcome, 'UNKNOWN');
      assert.match(error.message, /head/);
    });
  });

  for (const type of ['http', 'json'] as const) {
    test(`fault:F25 a JSON body that has begun must not pause (${type})`, async () => {
      const server = await RawServer.start((socket) => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a');
      });
      await withRaw(
        server,
        { client: { bodyPauseMs: 80 } },
        async (bench) => {
          callEcho(bench, 1);
          const error = await bench.receiver.loss(1);
          assert.equal(error.outcome, 'UNKNOWN');
          assert.match(error.message, /paused/);
        },
        type,
      );
    });
  }

  test('fault:F25 only the deadline of the call limits the wait for the head', async () => {
    const server = await RawServer.start((socket, request) => {
      setTimeout(() => socket.write(response(idOf(request), 'json')), 300);
    });
    await withRaw(server, { client: { headTimeoutMs: 50, bodyPauseMs: 50 } }, async (bench) => {
      callEcho(bench, 1);
      assert.equal(await echoed(bench, 1), 'hello');
    });
  });

  test('fault:F25 endless comments keep a call open until the caller abandons it, and cost nothing', async () => {
    let closed = false;
    const server = await RawServer.start((socket) => {
      socket.on('close', () => {
        closed = true;
      });
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n');
      const comments = setInterval(() => {
        if (socket.destroyed) clearInterval(comments);
        else socket.write(': still here\n\n'.repeat(100));
      }, 5);
    });
    await withRaw(server, { maxMessageBytes: 1000, client: { bodyPauseMs: 50, headTimeoutMs: 50 } }, async (bench) => {
      callEcho(bench, 1);
      await new Promise((resolve) => setTimeout(resolve, 300));
      assert.deepEqual(bench.receiver.order, []);
      bench.transport.abandon(1);
      await eventually(() => closed);
      assert.deepEqual(bench.receiver.order, []);
    });
  });

  test('fault:F25 silence on an event stream is not a fault', async (t) => {
    const server = await StatelessServer.start({
      intercept: (message, { res }) => {
        if (message.method !== 'tools/list') return false;
        res.writeHead(200, { 'content-type': 'text/event-stream' });
        res.flushHeaders();
        const text = JSON.stringify({ jsonrpc: '2.0', id: message.id, result: { tools: [] } });
        setTimeout(() => res.end(`data: ${text}\n\n`), 300);
        return true;
      },
    });
    t.after(() => server.stop());
    const bench = await openBench('http', server.url, { client: { bodyPauseMs: 50, headTimeoutMs: 50 } });
    t.after(() => bench.transport.close('interrupt'));
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } });
    const headers = ['MCP-Protocol-Version', '2026-07-28', 'Mcp-Method', 'tools/list'];
    bench.transport.send([Buffer.from(body)], { request: 1, method: 'tools/list', headers });
    await bench.receiver.answer(1);
    assert.deepEqual(bench.receiver.losses, []);
  });
});
