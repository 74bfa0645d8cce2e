import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  ScriptedServer,
  SILENCE,
  statefulScript,
  statefulServer,
  statelessScript,
} from '../../../test/support/scripted-server.ts';
import { clientOf, httpServerOf, serverOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { IntegerMap } from '../../model/integer-map.ts';
import type { Message } from '../../model/message.ts';
import type { Call } from '../calls/call.ts';
import type { PendingRequest } from '../calls/pending.ts';
import { LogLevelSync } from './log-level-sync.ts';

const LOGGING = {
  ...statefulServer(),
  initialize: () => ({
    protocolVersion: '2025-11-25',
    capabilities: { tools: {}, logging: {} },
    serverInfo: { name: 'logs', version: '1' },
  }),
  'logging/setLevel': () => ({}),
};
const LEVEL = 'io.modelcontextprotocol/logLevel';

function stateless(logLevel: string | null) {
  const meta = logLevel === null ? {} : { [LEVEL]: logLevel };
  return toolCall(clientOf(null, '{}', { logLevel }), JSON.stringify({ name: 'echo', arguments: {}, _meta: meta }));
}

/** The levels and calls that the server received, in order. */
function order(script: ScriptedServer): string[] {
  return script.last.seen
    .filter(({ method }) => method === 'logging/setLevel' || method === 'tools/call')
    .map(({ method, params }) => (method === 'tools/call' ? 'call' : String(params?.['level'])));
}

test('check:B13 the lowest level of the calls in flight is set before the call that needs it', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...LOGGING, 'tools/call': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const outcomes: Promise<unknown>[] = [];
  for (const level of [null, 'warning', 'warning', 'debug', 'error']) {
    outcomes.push(bench.call('a', stateless(level)));
    await settled();
  }
  assert.deepEqual(order(script), ['call', 'warning', 'call', 'call', 'debug', 'call', 'call']);
  assert.ok(!script.last.lines.some((line) => line.includes(LEVEL)), 'a stateful server gets no level in `_meta`');
  for (const { id, method } of script.last.seen) if (method === 'tools/call') script.last.respond(id as number, {});
  await Promise.all(outcomes);
  // No call in flight needs that level any more: the next call with a level raises it.
  void bench.call('a', stateless('error'));
  await settled();
  assert.deepEqual(order(script).slice(-2), ['error', 'call']);
});

test('check:B13 a session’s level applies to its next connection too, with or without a call', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(LOGGING);
  await bench.run([serverOf('a'), script]);
  const client = clientOf('session-1', '{}', { logLevel: 'notice' });
  await bench.call('a', toolCall(client));
  await bench.call('a', toolCall(client));
  assert.deepEqual(order(script), ['notice', 'call', 'call']);
  script.last.end();
  await bench.clock.advance(5_000);
  await settled();
  assert.deepEqual(order(script), ['notice']);
});

test('where messages may overtake each other the call waits for the server’s acknowledgement, for a limited time', async () => {
  const bench = new UpstreamBench();
  let answers = true;
  const script = new ScriptedServer({ ...LOGGING, 'logging/setLevel': () => (answers ? {} : SILENCE) });
  await bench.run([httpServerOf('a'), script]);
  await bench.call('a', stateless('info'));
  assert.deepEqual(order(script), ['info', 'call']);
  answers = false;
  const waiting = bench.call('a', stateless('debug'));
  const second = bench.call('a', stateless('debug'));
  await settled();
  assert.deepEqual(order(script), ['info', 'call', 'debug']);
  await bench.clock.advance(1_000);
  await Promise.all([waiting, second]);
  assert.deepEqual(order(script), ['info', 'call', 'debug', 'call', 'call']);
});

test('a server without logging gets no level; a stateless one gets it in the `_meta` of each request', async () => {
  const bench = new UpstreamBench();
  const mute = statefulScript();
  await bench.run([serverOf('mute'), mute]);
  const client = clientOf('session-1', '{}', { logLevel: 'notice' });
  await bench.call('mute', toolCall(client));
  assert.deepEqual(order(mute), ['call']);
  const other = new UpstreamBench();
  const young = statelessScript();
  await other.run([serverOf('young'), young]);
  const levels: unknown[] = [];
  for (const each of [client, clientOf('session-2'), clientOf(null, '{}', { logLevel: 'debug' })]) {
    await other.call('young', toolCall(each));
    const { params } = young.links.flatMap(({ seen }) => seen).findLast(({ method }) => method === 'tools/call')!;
    levels.push(params?._meta?.[LEVEL]);
  }
  // The `_meta` of a stateless client passes unchanged; the `_meta` of this one has no level.
  assert.deepEqual(levels, ['notice', undefined, undefined]);
});

test('check:C9 a node does not assume the level it set last for a session that other nodes use too', () => {
  const reported: string[] = [];
  const teller = {
    joined: null as object | null,
    ask(message: Message) {
      reported.push(JSON.parse(message.bytes.toString()).params.level);
      return new Promise<Message>(() => {});
    },
  };
  for (const [othersTell, sessionId, expected] of [
    [true, null, ['info', 'info', 'error']],
    [false, null, ['info', 'error']],
    [true, 'session-1', ['info', 'error']],
  ] as const) {
    reported.length = 0;
    teller.joined = othersTell ? {} : null;
    const level = new LogLevelSync(teller, new IntegerMap<PendingRequest>(), true);
    for (const logLevel of ['info', 'info', 'error']) {
      const client = clientOf(sessionId, '{}', { logLevel });
      const call = { method: 'tools/call', exchange: { client }, done: false } as unknown as Call;
      assert.equal(
        level.deferCall(call, () => assert.fail('the call was not deferred')),
        false,
      );
    }
    assert.deepEqual(reported, expected);
  }
});
