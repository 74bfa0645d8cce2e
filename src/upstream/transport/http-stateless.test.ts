import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ask, askStateless, type Bench, echoed, openBench } from '../../../test/fixtures/http/bench.ts';
import { eventText, openEvents } from '../../../test/fixtures/http/stage.ts';
import { type StatelessOptions, StatelessServer } from '../../../test/fixtures/http/stateless.ts';

const LIMIT = { timeout: 20_000 };

async function stateless(
  options: StatelessOptions,
  run: (server: StatelessServer, bench: Bench) => Promise<void>,
): Promise<void> {
  const server = await StatelessServer.start(options);
  const bench = await openBench('http', server.url);
  try {
    await run(server, bench);
  } finally {
    await bench.transport.close('interrupt');
    await server.stop();
  }
}

describe('Streamable HTTP, stateless era', LIMIT, () => {
  for (const reply of ['json', 'sse'] as const) {
    test(`check:B4 discover and call, answered as ${reply}: no session, no GET, no DELETE`, () =>
      stateless({ reply }, async (server, bench) => {
        // While probing, the header with the revision comes from the message; afterwards from the connection.
        const probe = {
          _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' },
        };
        const headers = ['Mcp-Method', 'server/discover', 'MCP-Protocol-Version', '2026-07-28'];
        ask(bench, 1, 'server/discover', probe, headers);
        await bench.receiver.answer(1);
        bench.transport.negotiated({ era: 'stateless', revision: '2026-07-28' });
        askStateless(bench, 2, 'tools/call', { name: 'echo', arguments: { text: 'hi' } });
        assert.equal(await echoed(bench, 2), 'hi');
        ask(bench, 3, 'server/discover', probe, headers);
        await bench.receiver.answer(3);
        const twice = server.stage.requests.at(-1)!.rawHeaders.filter((name) => /^mcp-protocol-version$/i.test(name));
        assert.equal(twice.length, 1);
        await bench.transport.close('remove');
        assert.ok(server.stage.requests.every(({ method }) => method === 'POST'));
        assert.ok(server.stage.requests.every((request) => request.headers['mcp-session-id'] === undefined));
      }));
  }

  test('the gateway cancels a request by closing its stream', () =>
    stateless({}, async (server, bench) => {
      bench.transport.negotiated({ era: 'stateless', revision: '2026-07-28' });
      askStateless(bench, 7, 'subscriptions/listen');
      await bench.receiver.until(() => bench.receiver.messages.length === 1);
      const { res } = server.stage.requests[0]!;
      bench.transport.abandon(7);
      await new Promise((resolve) => res.on('close', resolve));
      assert.deepEqual(server.cancelled, [7]);
      assert.deepEqual(bench.receiver.losses, []);
    }));

  test('protocol errors with 400 and 404 are answers, not losses', () =>
    stateless({}, async (_server, bench) => {
      bench.transport.negotiated({ era: 'stateless', revision: '2026-07-28' });
      askStateless(bench, 1, 'no/such');
      const missing = await bench.receiver.answer(1);
      assert.equal(missing.request, 1);
      assert.equal(JSON.parse(missing.bytes.toString()).error.code, -32601);
      ask(bench, 2, 'tools/list', {});
      assert.equal(JSON.parse((await bench.receiver.answer(2)).bytes.toString()).error.code, -32020);
      assert.deepEqual(bench.receiver.losses, []);
      assert.deepEqual(bench.receiver.closedReasons, []);
    }));

  test('a stream that ends before its answer does not resume: UNKNOWN', () =>
    stateless(
      {
        intercept: (_message, { res }) => {
          openEvents(res);
          res.end(eventText({ id: 'x', data: '{"jsonrpc":"2.0","method":"notifications/progress"}' }));
          return true;
        },
      },
      async (server, bench) => {
        bench.transport.negotiated({ era: 'stateless', revision: '2026-07-28' });
        askStateless(bench, 1, 'tools/list');
        assert.equal((await bench.receiver.loss(1)).outcome, 'UNKNOWN');
        assert.equal(server.stage.of('GET').length, 0);
      },
    ));
});
