import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  type Handler,
  Refusal,
  ScriptedServer,
  type ScriptedTransport,
  SILENCE,
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

const modern = clientOf(null);
const oldTools = [
  { name: 'echo', inputSchema: { type: 'object' } },
  { name: 'ask', inputSchema: { type: 'object' } },
];

/** Takes both first messages, and keeps each connection to the era of its first, as servers made with SDK 2 do. */
function bilingual(): ScriptedServer {
  const stateful = statefulServer(oldTools);
  const stateless = statelessServer();
  const sides = new Map<ScriptedTransport, Record<string, Handler>>();
  const handlers: Record<string, Handler> = {};
  for (const method of ['server/discover', 'initialize', 'tools/list', 'tools/call', 'ping']) {
    handlers[method] = (params, link, id) => {
      if (!sides.has(link)) sides.set(link, method === 'initialize' ? stateful : stateless);
      const handler = sides.get(link)![method];
      return handler === undefined ? new Refusal(-32022, 'not in this era') : handler(params, link, id);
    };
  }
  return new ScriptedServer(handlers);
}

function firsts(script: ScriptedServer): (string | undefined)[] {
  return script.links.map((link) => link.seen[0]?.method);
}

function toolsOf(catalog: Awaited<ReturnType<UpstreamBench['set']['catalog']>>): string[] {
  return catalog!.lists.tools.items.map(({ key }) => key);
}

for (const [wire, define] of [
  ['stdio', serverOf],
  ['http', httpServerOf],
] as const) {
  test(`a server of both eras (${wire}): each client uses its own era, and the stateless connection never gets an initialize`, async () => {
    const bench = new UpstreamBench();
    const script = bilingual();
    await bench.run([define('a'), script]);
    for (const client of [modern, clientOf('one'), clientOf('two'), modern, clientOf('one')]) {
      answerText(await bench.call('a', toolCall(client)));
    }
    assert.deepEqual(firsts(script), ['server/discover', 'initialize', 'initialize']);
    assert.deepEqual(
      script.links.map((link) => link.count('tools/call')),
      [2, 2, 1],
    );
    assert.equal(script.links[0]!.count('initialize'), 0);
    assert.deepEqual(
      [modern, clientOf('one'), clientOf('three')].map((client) => bench.set.ownsConnection('a', client)),
      [false, true, false],
    );
    assert.equal(bench.set.status('a')!.connections.length, 3);
    bench.set.releaseSession('one');
    await settled();
    assert.deepEqual(
      script.links.map((link) => link.state),
      ['open', 'closed', 'open'],
    );
  });
}

test('each era has its own handshake result and lists, also after a restart of the gateway', async () => {
  const remembered = new Remembered();
  const first = new UpstreamBench({ remembered });
  const script = bilingual();
  await first.run([serverOf('a'), script]);
  const old = clientOf('s');
  assert.deepEqual(toolsOf(await first.set.catalog('a', modern, 1000)), ['echo']);
  assert.equal(first.set.knownCatalog('a', old), null);
  const listed = await first.set.catalog('a', old, 1000);
  assert.deepEqual([listed!.handshake.era, toolsOf(listed)], ['stateful', ['echo', 'ask']]);
  assert.equal(first.set.knownCatalog('a', modern)!.handshake.era, 'stateless');
  // The connection that listed the tools becomes the session's.
  answerText(await first.call('a', toolCall(old)));
  assert.deepEqual(firsts(script), ['server/discover', 'initialize']);
  await first.set.close('shutdown');

  const second = new UpstreamBench({ remembered });
  const again = bilingual();
  await second.run([serverOf('a'), again]);
  assert.deepEqual(toolsOf(second.set.knownCatalog('a', old)), ['echo', 'ask']);
  assert.deepEqual(toolsOf(second.set.knownCatalog('a', modern)), ['echo']);
  // The lists are known now: no process starts for an era that no client uses.
  answerText(await second.call('a', toolCall(old)));
  assert.deepEqual(firsts(again), ['initialize']);
  answerText(await second.call('a', toolCall(modern)));
  assert.deepEqual(firsts(again), ['initialize', 'server/discover']);
});

test('isolation shared: one connection in each era', async () => {
  const bench = new UpstreamBench();
  const script = bilingual();
  await bench.run([serverOf('a', { isolation: 'shared' }), script]);
  for (const client of [clientOf('one'), modern, clientOf('two')]) {
    answerText(await bench.call('a', toolCall(client)));
  }
  assert.deepEqual(
    script.live.map((link) => [link.seen[0]!.method, link.count('tools/call')]),
    [
      ['server/discover', 1],
      ['initialize', 2],
    ],
  );
});

test('isolation principal: a client has two connections, one in each era', async () => {
  const bench = new UpstreamBench();
  const script = bilingual();
  await bench.run([serverOf('a', { isolation: 'principal' }), script]);
  for (const client of [modern, clientOf('one'), clientOf('two'), modern]) {
    answerText(await bench.call('a', toolCall(client)));
  }
  assert.deepEqual(
    script.live.map((link) => [link.seen[0]!.method, link.count('tools/call')]),
    [
      ['server/discover', 2],
      ['initialize', 2],
    ],
  );
});

test('the gateway asks once whether the server takes initialize, for all clients that wait, and remembers a refusal', async () => {
  const remembered = new Remembered();
  const bench = new UpstreamBench({ remembered });
  const script = statelessScript();
  await bench.run([serverOf('a'), script]);
  const outcomes = ['one', 'two', 'three'].map((session) => bench.call('a', toolCall(clientOf(session))));
  for (const outcome of outcomes) answerText(await outcome);
  assert.deepEqual(firsts(script), ['server/discover', 'initialize']);
  assert.equal(script.live.length, 1);
  assert.deepEqual(bench.stores.eraVerdicts.get('digest of a'), {
    era: 'stateless',
    revision: '2026-07-28',
    also: 'none',
  });

  const second = new UpstreamBench({ remembered });
  const again = statelessScript();
  await second.run([serverOf('a'), again]);
  answerText(await second.call('a', toolCall(clientOf('one'))));
  assert.deepEqual(firsts(again), ['server/discover']);
});

test('silence counts as a refusal for this run of the server, after the time of a probe; the next run is asked again', async () => {
  const remembered = new Remembered();
  const bench = new UpstreamBench({ remembered, times: { probeSilenceMs: 3000 } });
  const script = bilingual();
  const take = script.handlers['initialize']!;
  script.handlers['initialize'] = () => SILENCE;
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(clientOf('one')));
  await settled();
  await bench.clock.advance(2999);
  assert.equal(script.links[0]!.count('tools/call'), 0);
  await bench.clock.advance(1);
  await bench.clock.advance(200);
  answerText(await outcome);
  assert.equal(script.links[0]!.count('tools/call'), 1);
  assert.equal(script.links[1]!.state, 'closed');
  answerText(await bench.call('a', toolCall(clientOf('two'))));
  assert.equal(script.links.length, 2);
  assert.equal(bench.stores.eraVerdicts.get('digest of a')?.also, undefined);

  script.handlers['initialize'] = take;
  const restarted = bench.set.restart('a');
  await settled();
  await bench.clock.advance(200);
  await restarted;
  answerText(await bench.call('a', toolCall(clientOf('two'))));
  assert.equal(script.last.seen[0]!.method, 'initialize');
});

test('a second process that is slow to start does not count as one that ignores initialize', async () => {
  const bench = new UpstreamBench({ times: { probeSilenceMs: 3000 } });
  const script = bilingual();
  const take = script.handlers['initialize']!;
  script.handlers['initialize'] = () => SILENCE;
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf(null))));
  script.handlers['server/discover'] = () => SILENCE;
  const outcome = bench.call('a', toolCall(clientOf('one')));
  await settled();
  await bench.clock.advance(40_000);
  const link = script.links[1]!;
  assert.equal(link.state, 'open');
  link.respond(link.lastOf('initialize').id as number, take({ protocolVersion: '2025-11-25' }, link, 0));
  answerText(await outcome);
  assert.equal(link.count('tools/call'), 1);
  assert.equal(script.links.length, 2);
});

test('a process that exits on initialize leaves the serving one untouched', async () => {
  const bench = new UpstreamBench();
  const script = bilingual();
  script.handlers['initialize'] = (_params, link) => {
    link.end();
    return SILENCE;
  };
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.deepEqual([script.links.length, script.live.length], [2, 1]);
  const { state, lastExit } = bench.set.status('a')!;
  assert.deepEqual([state, lastExit], ['running', null]);
});

test('a network failure decides nothing: the call is NOT_SENT, and the next one asks again', async () => {
  const bench = new UpstreamBench();
  const script = bilingual();
  await bench.run([httpServerOf('a'), script]);
  answerText(await bench.call('a', toolCall(modern)));
  script.openFails = new GatewayError('NOT_SENT', 'connection refused');
  assert.equal(failureOf(await bench.call('a', toolCall(clientOf('one')))).outcome, 'NOT_SENT');
  script.openFails = null;
  await bench.clock.advance(30_000);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.equal(script.last.seen[0]!.method, 'initialize');
  assert.equal(bench.set.ownsConnection('a', clientOf('one')), true);
});

test('a server remembered as speaking both eras that now speaks one is detected at the first refusal', async () => {
  const remembered = new Remembered();
  remembered.opened().eraVerdicts.set('digest of a', { era: 'stateless', revision: '2026-07-28', also: 'stateful' });
  const bench = new UpstreamBench({ remembered });
  const script = statelessScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.deepEqual(firsts(script), ['initialize', 'server/discover']);
  assert.equal(bench.stores.eraVerdicts.get('digest of a')?.also, 'none');
});

test('a refusal of one session while others live does not classify the server', async () => {
  const bench = new UpstreamBench();
  const script = bilingual();
  const take = script.handlers['initialize']!;
  script.handlers['initialize'] = (params, link, id) =>
    link.number === 3 ? new Refusal(-32000, 'too many sessions') : take(params, link, id);
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.match(failureOf(await bench.call('a', toolCall(clientOf('two')))).message, /too many sessions/);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.equal(script.links[0]!.count('tools/call'), 0);
  assert.equal(script.links[1]!.count('tools/call'), 2);
});

test('both eras count against the process limit; an idle stateless process makes room', async () => {
  const bench = new UpstreamBench();
  const script = bilingual();
  await bench.run([serverOf('a', { limits: { maxMessageBytes: 1 << 20, maxProcesses: 2 } }), script]);
  answerText(await bench.call('a', toolCall(modern)));
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  answerText(await bench.call('a', toolCall(clientOf('two'))));
  assert.equal(script.live.length, 2);
  assert.deepEqual(bench.events.lost, [], 'the stateless one went first');
  const answers = script.handlers['tools/call']!;
  script.handlers['tools/call'] = () => SILENCE;
  for (const session of ['one', 'two']) void bench.call('a', toolCall(clientOf(session)));
  await settled();
  script.handlers['tools/call'] = answers;
  assert.equal(failureOf(await bench.whenLate(bench.call('a', toolCall(modern)))).code, 'OVERLOADED');
  bench.set.releaseSession('one');
  await settled();
  answerText(await bench.call('a', toolCall(modern)));
});

test('a session’s process that dies is replaced in its era', async () => {
  const bench = new UpstreamBench();
  const script = bilingual();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(modern)));
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  script.last.end();
  await settled();
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.deepEqual(firsts(script), ['server/discover', 'initialize', 'initialize']);
  assert.deepEqual(bench.events.lost, ['one']);
});
