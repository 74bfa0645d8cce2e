import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  Refusal,
  ScriptedServer,
  type ScriptedTransport,
  SILENCE,
  statefulScript,
  statefulServer,
  statelessScript,
  statelessServer,
} from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  Remembered,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';

const client = clientOf('s', '{"roots":{"listChanged":true},"x-unknown":1.0}');

function methods(link: ScriptedTransport): (string | undefined)[] {
  return link.seen.map((seen) => seen.method);
}

/** A refusal as the HTTP transport reports it: the server's status is the cause. */
function httpStatus(status: number): GatewayError {
  return new GatewayError('NOT_SENT', `mcp http status ${status}`, {
    retryable: false,
    cause: { status, challenge: null },
  });
}

test('S2.10 proto:S5 an old server gets initialize with the client’s own info and capabilities after the probe, then notifications/initialized', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  await bench.call('a', toolCall(client));
  assert.deepEqual(methods(script.last).slice(0, 3), ['server/discover', 'initialize', 'notifications/initialized']);
  const line = script.last.lines[1]!;
  assert.ok(line.includes('"capabilities":{"roots":{"listChanged":true},"x-unknown":1.0}'));
  assert.ok(line.includes('"clientInfo":{"name":"test client","version":"1"}'));
  assert.ok(line.includes('"protocolVersion":"2025-11-25"'));
  assert.deepEqual(script.last.facts, { era: 'stateful', revision: '2025-11-25', silent: false });
});

test('every known revision that the server answers is accepted; an unknown one is not', async () => {
  for (const revision of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    const bench = new UpstreamBench();
    const script = statefulScript();
    script.handlers['initialize'] = () => ({ protocolVersion: revision, capabilities: {}, serverInfo: { name: 'x' } });
    await bench.run([serverOf('a'), script]);
    answerText(await bench.call('a', toolCall(client)));
    assert.equal(script.last.facts?.revision, revision);
  }
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['initialize'] = () => ({ protocolVersion: '1999-01-01', capabilities: {} });
  await bench.run([serverOf('a'), script]);
  const error = failureOf(await bench.call('a', toolCall(client)));
  assert.deepEqual([error.code, error.outcome], ['NOT_SENT', 'NOT_SENT']);
  assert.match(error.message, /1999-01-01/);
  assert.equal(script.live.length, 0);
});

test('a server of 2026-07-28 gets only server/discover', async () => {
  const bench = new UpstreamBench();
  const script = statelessScript();
  await bench.run([httpServerOf('a'), script]);
  await bench.call('a', toolCall(clientOf(null)));
  assert.deepEqual(
    methods(script.last).filter((method) => method !== 'tools/list'),
    ['server/discover', 'tools/call'],
  );
  assert.deepEqual(script.last.headers[0], ['MCP-Protocol-Version', '2026-07-28', 'Mcp-Method', 'server/discover']);
});

test('a server that exits on the unknown first message gets a fresh process, with initialize first', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['server/discover'] = (_params, link) => {
    link.end();
    return SILENCE;
  };
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(client)));
  assert.equal(script.links.length, 2);
  assert.equal(methods(script.last)[0], 'initialize');
});

test('a server that is silent on the unknown first message gets initialize on the same process', async () => {
  const bench = new UpstreamBench({ times: { probeSilenceMs: 3000 } });
  const script = statefulScript();
  script.handlers['server/discover'] = () => SILENCE;
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(client));
  await settled();
  await bench.clock.advance(2999);
  assert.deepEqual(methods(script.last), ['server/discover']);
  await bench.clock.advance(1);
  await bench.clock.advance(200);
  answerText(await outcome);
  assert.equal(script.links.length, 1);
});

test('a server of 2026-07-28 that is slow to start keeps its process unless that has taken initialize, too', async () => {
  for (const order of [
    ['server/discover', 'initialize'],
    ['initialize', 'server/discover'],
  ]) {
    for (const both of [false, true]) {
      const bench = new UpstreamBench({ times: { probeSilenceMs: 3000 } });
      const quick = statelessServer();
      const silent = { 'server/discover': () => SILENCE, initialize: () => SILENCE };
      const script = new ScriptedServer({ ...quick, ...silent });
      await bench.run([serverOf('a'), script]);
      const outcome = bench.call('a', toolCall(clientOf(null)));
      await settled();
      await bench.clock.advance(20_000);
      const [link] = script.links;
      for (const method of order) {
        const { id } = link!.lastOf(method);
        if (method === 'server/discover') link!.respond(id as number, quick[method]!({}, link!, 0));
        else if (both) link!.respond(id as number, statefulServer()['initialize']!({}, link!, 0));
        else link!.deliver({ jsonrpc: '2.0', id, error: { code: -32022, message: 'no' } });
        await settled();
      }
      // It may answer in the other era from now on: another process gets `server/discover` alone, however long that takes.
      if (both) {
        await bench.clock.advance(10_000);
        assert.deepEqual(methods(script.last), ['server/discover']);
        script.last.respond(
          script.last.lastOf('server/discover').id as number,
          quick['server/discover']!({}, script.last, 0),
        );
        await settled();
      }
      answerText(await outcome);
      assert.equal(script.links.length, both ? 2 : 1);
      assert.equal(script.last.facts?.era, 'stateless', `${order[0]} first, both eras ${both}`);
      assert.equal(script.last.count('tools/call'), 1);
    }
  }
});

test('an old program in place of a slow one that ended on initialize gets initialize after two starts without it', async () => {
  const bench = new UpstreamBench({ times: { probeSilenceMs: 3000, startupMs: 20_000 } });
  const silent = { 'server/discover': () => SILENCE, initialize: () => SILENCE };
  const script = new ScriptedServer({ ...statefulServer(), ...silent });
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(client));
  await settled();
  await bench.clock.advance(8_000);
  const [first] = script.links;
  first!.respond(first!.lastOf('server/discover').id as number, statelessServer()['server/discover']!({}, first!, 0));
  first!.end();
  await settled();
  assert.deepEqual(methods(script.last), ['server/discover']);
  const opened = async (count: number) => {
    for (let i = 0; i < 90 && script.links.length < count; i++) await bench.clock.advance(1_000);
    assert.equal(script.links.length, count);
  };
  await opened(3);
  await bench.clock.advance(18_000);
  assert.deepEqual(methods(script.last), ['server/discover']);
  await opened(4);
  await bench.clock.advance(3_000);
  assert.deepEqual(methods(script.last), ['server/discover', 'initialize']);
  await bench.set.close('shutdown');
  failureOf(await outcome);
});

test('an old server that is slow to start, or ignores the probe, keeps its process and does not stay busy', async () => {
  const bench = new UpstreamBench({ times: { probeSilenceMs: 3000 } });
  const script = statefulScript();
  const take = script.handlers['initialize']!;
  script.handlers['server/discover'] = () => SILENCE;
  script.handlers['initialize'] = () => SILENCE;
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(client));
  await settled();
  await bench.clock.advance(20_000);
  const [link] = script.links;
  link!.respond(link!.lastOf('initialize').id as number, take({ protocolVersion: '2025-11-25' }, link!, 0));
  await settled();
  await bench.clock.advance(200);
  answerText(await outcome);
  assert.equal(script.links.length, 1);
  await settled();
  assert.equal(bench.set.status('a')!.connections[0]!.inFlight, 0);
});

test('an old server that is slow to start and exits on the probe is started once more, without it', async () => {
  const bench = new UpstreamBench({ times: { probeSilenceMs: 3000 } });
  const script = statefulScript();
  const take = script.handlers['initialize']!;
  script.handlers['server/discover'] = () => SILENCE;
  script.handlers['initialize'] = () => SILENCE;
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(client));
  await settled();
  await bench.clock.advance(8_000);
  script.handlers['initialize'] = take;
  script.last.end();
  answerText(await outcome);
  assert.deepEqual(methods(script.last).slice(0, 2), ['initialize', 'notifications/initialized']);
  assert.equal(script.links.length, 2);
});

test('a server that knows 2026-07-28 but wants an older revision is initialized; one without a common revision is not', async () => {
  const both = new UpstreamBench();
  const script = statefulScript();
  script.handlers['server/discover'] = () => new Refusal(-32022, 'no', { supported: ['2027-01-01', '2025-06-18'] });
  await both.run([serverOf('a'), script]);
  answerText(await both.call('a', toolCall(client)));

  const neither = new UpstreamBench();
  const future = statefulScript();
  future.handlers['server/discover'] = () => new Refusal(-32022, 'no', { supported: ['2027-01-01'] });
  await neither.run([serverOf('a'), future]);
  const error = failureOf(await neither.call('a', toolCall(client)));
  assert.match(error.message, /2027-01-01/);
  assert.equal(future.last.count('initialize'), 0);
});

test('a server that refuses 2026-07-28 once and names it is asked again, on the same connection', async () => {
  const bench = new UpstreamBench();
  const script = statelessScript();
  const discover = script.handlers['server/discover']!;
  script.handlers['server/discover'] = () => {
    script.handlers['server/discover'] = discover;
    return new Refusal(-32022, 'no', { supported: ['2026-07-28'] });
  };
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(client)));
  assert.deepEqual(methods(script.links[0]!).slice(0, 2), ['server/discover', 'server/discover']);

  const never = new UpstreamBench();
  const refusing = statelessScript();
  refusing.handlers['server/discover'] = () => new Refusal(-32022, 'no', { supported: ['2026-07-28'] });
  await never.run([serverOf('a'), refusing]);
  assert.match(failureOf(await never.call('a', toolCall(client))).message, /none of our protocol revisions/);
});

test('a server that answers unknown methods with an empty result is an old one', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'server/discover': () => ({}) });
  await bench.run([httpServerOf('a'), script]);
  answerText(await bench.call('a', toolCall(client)));
  assert.deepEqual(methods(script.last).slice(0, 3), ['server/discover', 'initialize', 'notifications/initialized']);
});

test('the era verdict is remembered over restarts of the gateway, and forgotten when it proves wrong', async () => {
  const remembered = new Remembered();
  const script = statefulScript();
  const first = new UpstreamBench({ remembered });
  await first.run([serverOf('a'), script]);
  answerText(await first.call('a', toolCall(client)));

  const second = new UpstreamBench({ remembered });
  await second.run([serverOf('a'), script]);
  answerText(await second.call('a', toolCall(client)));
  assert.equal(methods(script.last)[0], 'initialize');

  // The server was upgraded meanwhile: it refuses initialize, so it is probed again.
  const modern = statelessScript();
  const third = new UpstreamBench({ remembered });
  await third.run([serverOf('a'), modern]);
  answerText(await third.call('a', toolCall(client)));
  assert.deepEqual(
    modern.links.map((link) => methods(link)[0]),
    ['initialize', 'server/discover'],
  );
  assert.equal(third.stores.eraVerdicts.get('digest of a')?.era, 'stateless');
});

test('over HTTP any refusal of the probe leads to initialize, and its refusal to HTTP+SSE of 2024-11-05', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const refuse = (status: number) => (_: unknown, link: ScriptedTransport, id: number) => {
    link.lose(id, 'NOT_SENT', httpStatus(status));
    return SILENCE;
  };
  const { initialize } = script.handlers;
  script.handlers['server/discover'] = refuse(404);
  script.handlers['initialize'] = (params, link, id) =>
    link.kind === 'sse' ? initialize!(params, link, id) : refuse(405)(params, link, id);
  const transport = { type: 'http', url: 'http://127.0.0.1/a', sseFallback: true, headers: {}, tls: {} } as const;
  await bench.run([httpServerOf('a', { transport }), script]);
  answerText(await bench.call('a', toolCall(client)));
  assert.deepEqual(
    script.links.map((link) => link.kind),
    ['http', 'sse'],
  );
  // Later connections use HTTP+SSE at once.
  answerText(await bench.call('a', toolCall(clientOf('t', '{"sampling":{}}'))));
  assert.deepEqual(
    script.links.map((link) => link.kind),
    ['http', 'sse', 'sse'],
  );
});

test('a server configured as Streamable HTTP is not tried as HTTP+SSE; the error names the remedy', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({});
  const refuse = (_: unknown, link: ScriptedTransport, id: number) => {
    link.lose(id, 'NOT_SENT', httpStatus(405));
    return SILENCE;
  };
  script.handlers['server/discover'] = refuse;
  script.handlers['initialize'] = refuse;
  await bench.run([httpServerOf('a'), script]);
  assert.match(failureOf(await bench.call('a', toolCall(client))).message, /405.*"type" to "sse"/);
  assert.deepEqual(
    script.links.map((link) => link.kind),
    ['http'],
  );
});

test('required credentials end the attempt: auth_required, calls REFUSED', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['server/discover'] = (_params, link) => {
    link.end({ kind: 'auth_required', challenge: 'Bearer' });
    return SILENCE;
  };
  await bench.run([httpServerOf('a'), script]);
  const error = failureOf(await bench.call('a', toolCall(client)));
  assert.deepEqual([error.code, error.outcome], ['AUTH_REQUIRED', 'REFUSED']);
  assert.equal(bench.set.status('a')?.state, 'auth_required');
  assert.equal(script.links.length, 1);
});

test('S1.14 a server that never answers is given up after the start time limit, and its process ended', async () => {
  const bench = new UpstreamBench({ times: { startupMs: 20_000 } });
  const script = new ScriptedServer({});
  script.handlers['server/discover'] = () => SILENCE;
  script.handlers['initialize'] = () => SILENCE;
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(client));
  await settled();
  await bench.clock.advance(20_000);
  const error = failureOf(await outcome);
  assert.equal(error.outcome, 'NOT_SENT');
  assert.match(error.message, /did not start within 20000 ms/);
  await settled();
  assert.equal(script.live.length, 0);
});

test('text of a server is shortened in the error of a failed start, which states and logs keep', async () => {
  const long = 'x'.repeat(2_000_000);
  const refuses = (_: unknown, link: ScriptedTransport, id: number) => {
    link.deliver({ jsonrpc: '2.0', id, error: { code: -32_000, message: long } });
    return SILENCE;
  };
  for (const initialize of [refuses, () => ({ protocolVersion: long, capabilities: {} })]) {
    const bench = new UpstreamBench();
    const script = statefulScript();
    script.handlers['initialize'] = initialize;
    await bench.run([serverOf('a'), script]);
    const { message } = failureOf(await bench.call('a', toolCall(client)));
    assert.match(message, /a could not be started: .*x{200}/);
    assert.ok(message.length < 1_000, `${message.length}`);
  }
});
