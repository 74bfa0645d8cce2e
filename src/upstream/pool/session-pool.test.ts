import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, makeTransport } from '../../../test/fixtures/http/bench.ts';
import { parseRpc } from '../../../test/fixtures/http/rpc.ts';
import { StatefulServer } from '../../../test/fixtures/http/stateful.ts';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  ScriptedServer,
  SILENCE,
  statefulScript,
  statefulServer,
  statelessScript,
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
import { result } from '../../protocol/compose.ts';

test('check:C4 S1.16 stateful servers get a connection per session, stateless ones share one', async () => {
  const bench = new UpstreamBench();
  const old = statefulScript();
  const modern = statelessScript();
  await bench.run([serverOf('old'), old], [serverOf('modern'), modern]);
  for (const session of ['one', 'two', 'one']) {
    answerText(await bench.call('old', toolCall(clientOf(session))));
    answerText(await bench.call('modern', toolCall(clientOf(session))));
  }
  assert.equal(old.live.length, 2);
  assert.equal(modern.live.length, 1);
});

test('check:C4 isolation principal: one connection for all sessions of a principal and its capabilities', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { isolation: 'principal' }), script]);
  const other = { principal: { id: 'agent:x', name: 'x', servers: null } };
  await bench.call('a', toolCall(clientOf('one')));
  await bench.call('a', toolCall(clientOf('two')));
  assert.equal(script.live.length, 1);
  await bench.call('a', toolCall(clientOf('three', '{}', other)));
  await bench.call('a', toolCall(clientOf('four', '{"roots":{}}')));
  assert.equal(script.live.length, 3);
});

test('stateless clients of a stateful server are separated by principal, capabilities and the named header', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const handles = [null, 'blue', 'green', 'blue', null];
  for (const handle of handles) answerText(await bench.call('a', toolCall(clientOf(null, '{}', { handle }))));
  assert.equal(script.live.length, 3);
});

test('S1.15 concurrent first calls of one session open one connection, and sessions do not wait for each other', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('zero'))));
  const held = script.handlers['initialize']!;
  script.handlers['initialize'] = (params, link, id) => (link.number === 2 ? SILENCE : held(params, link, id));
  const slow = Array.from({ length: 10 }, (_, i) =>
    bench.call('a', toolCall(clientOf('slow'), '{"name":"echo"}', `${i}`)),
  );
  await settled();
  answerText(await bench.call('a', toolCall(clientOf('quick'))));
  assert.equal(script.links.length, 3);
  const hanging = script.links[1]!;
  hanging.respond(hanging.lastOf('initialize').id as number, held({}, hanging, 0));
  for (const outcome of slow) answerText(await outcome);
  assert.equal(script.links.length, 3);
});

test('a list starts no process of its own: the first session takes over the connection that it used', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const client = clientOf('s', '{"roots":{}}');
  assert.equal((await bench.set.catalog('a', client, 1000))?.lists.tools.items.length, 1);
  assert.equal(bench.set.ownsConnection('a', client), false);
  assert.deepEqual(
    bench.set.status('a')?.connections.map(({ key }) => key),
    ['spare'],
  );
  answerText(await bench.call('a', toolCall(client)));
  assert.equal(script.links.length, 1);
  assert.equal(bench.set.ownsConnection('a', client), true);
  assert.match(bench.set.status('a')!.connections[0]!.key, /^session [0-9a-f]{8}$/);
});

test('requests of a server before its connection has an owner go to the owner', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const client = clientOf('s', '{"roots":{}}');
  bench.events.answer = (asked) => Promise.resolve(result(asked.id, '{"roots":[]}', 'stateful'));
  await bench.set.catalog('a', client, 1000);
  script.last.deliver({ jsonrpc: '2.0', id: 7, method: 'roots/list' });
  await settled();
  assert.equal(bench.events.requests.length, 0);
  // The request waits a moment for the first call of the owner, and is sent on its stream.
  script.handlers['tools/call'] = () => SILENCE;
  const exchange = toolCall(client);
  exchange.answer = bench.events.answer;
  const outcome = bench.call('a', exchange);
  await settled();
  assert.deepEqual(
    exchange.asked.map(({ method }) => method),
    ['roots/list'],
  );
  assert.ok(script.last.seen.some((seen) => seen.id === 7 && seen.result !== undefined));
  script.last.respond(script.last.lastOf('tools/call').id as number, {});
  answerText(await outcome);
  script.last.deliver({ jsonrpc: '2.0', id: 7, method: 'roots/list' });
  await settled();
  assert.deepEqual(
    bench.events.requests.map(({ sessionId }) => sessionId),
    ['s'],
  );
  assert.ok(script.last.seen.some((seen) => seen.id === 7 && seen.result !== undefined));
});

test('a warm connection whose server has waited long for an answer is replaced, not used', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const client = clientOf('s', '{"roots":{}}');
  await bench.set.catalog('a', client, 1000);
  script.last.deliver({ jsonrpc: '2.0', id: 7, method: 'roots/list' });
  await bench.clock.advance(30_000);
  answerText(await bench.call('a', toolCall(client)));
  assert.equal(script.links.length, 2);
  assert.equal(script.links[0]!.state, 'closed');
});

test('above its process limit a server is OVERLOADED, with a remedy in the message', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { limits: { maxMessageBytes: 1 << 20, maxProcesses: 2 } }), script]);
  script.handlers['tools/call'] = () => SILENCE;
  const busy = ['one', 'two'].map((session) => bench.call('a', toolCall(clientOf(session))));
  await settled();
  const error = failureOf(await bench.whenLate(bench.call('a', toolCall(clientOf('three')))));
  assert.deepEqual([error.code, error.outcome], ['OVERLOADED', 'REFUSED']);
  assert.match(error.message, /maxProcesses/);
  assert.equal(bench.set.status('a')?.state, 'running');
  bench.set.releaseSession('one');
  await settled();
  assert.equal(failureOf(await busy[0]!).outcome, 'UNKNOWN');
  script.handlers['tools/call'] = () => ({ content: [] });
  answerText(await bench.call('a', toolCall(clientOf('three'))));
  assert.equal(script.live.length, 2);
});

function slow(): ScriptedServer {
  const script = statefulScript();
  script.handlers['tools/call'] = () => SILENCE;
  return script;
}

test('the node’s limit counts the processes of all servers; HTTP connections do not count', async () => {
  const bench = new UpstreamBench({ maxProcesses: 2 });
  await bench.run([serverOf('a'), slow()], [serverOf('b'), slow()], [httpServerOf('h'), statefulScript()]);
  for (const name of ['a', 'b']) void bench.call(name, toolCall(clientOf('one')));
  await settled();
  for (const session of ['one', 'two', 'three']) answerText(await bench.call('h', toolCall(clientOf(session))));
  assert.equal(failureOf(await bench.whenLate(bench.call('a', toolCall(clientOf('two'))))).code, 'OVERLOADED');
});

test('an idle warm connection makes room for a session, a busy connection never does', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { limits: { maxMessageBytes: 1 << 20, maxProcesses: 1 } }), script]);
  await bench.set.catalog('a', clientOf('x', '{"sampling":{}}'), 1000);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.equal(script.live.length, 1);
  assert.equal(script.links.length, 2);
  script.handlers['tools/call'] = () => SILENCE;
  void bench.call('a', toolCall(clientOf('one')));
  assert.equal(failureOf(await bench.whenLate(bench.call('a', toolCall(clientOf('two'))))).code, 'OVERLOADED');
});

test('a start that is cancelled in the start queue takes no place, and ends no idle process', async () => {
  // One of five places in the queue is for calls.
  const bench = new UpstreamBench({ maxProcesses: 5 });
  const idle = statefulScript();
  await bench.run([serverOf('idle'), idle]);
  answerText(await bench.call('idle', toolCall(clientOf('one'))));
  const starting = ['a', 'b', 'c', 'd'];
  for (const name of [...starting, 'queued']) {
    const script = statefulScript();
    script.handlers['initialize'] = () => SILENCE;
    bench.scripts.set(name, script);
  }
  const serve = (...names: readonly string[]) =>
    void bench.set.apply(new Map(['idle', ...names].map((name) => [name, serverOf(name, { start: 'eager' })])));
  serve(...starting, 'queued');
  await settled();
  assert.deepEqual([bench.scripts.get('d')!.links.length, bench.scripts.get('queued')!.links.length], [1, 0]);
  serve(...starting);
  await settled();
  assert.equal(idle.live.length, 1);
});

test('the end of a client session closes its own connections, also those being opened', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  bench.set.releaseSession('one');
  await settled();
  assert.equal(script.live.length, 0);
  assert.equal(script.last.closedWith, 'remove');
  script.handlers['initialize'] = () => SILENCE;
  const outcome = bench.call('a', toolCall(clientOf('two')));
  await settled();
  bench.set.releaseSession('two');
  await settled();
  assert.equal(failureOf(await outcome).outcome, 'NOT_SENT');
  assert.equal(script.live.length, 0);
});

test('check:B4 upstream HTTP sessions survive the gateway’s process; a forgotten one is replaced and its loss reported', async () => {
  const remembered = new Remembered();
  const script = statefulScript();
  const { initialize } = script.handlers;
  script.handlers['initialize'] = (params, link, id) => {
    link.sessionId(`upstream-${link.number}`);
    return initialize!(params, link, id);
  };
  const first = new UpstreamBench({ remembered });
  await first.run([httpServerOf('a'), script]);
  answerText(await first.call('a', toolCall(clientOf('one'))));
  await first.set.close('shutdown');
  assert.equal(script.last.closedWith, 'shutdown');
  const kept = [...remembered.file.all('upstream-session').keys()];
  assert.equal(kept.length, 1);
  assert.ok(!kept[0]!.includes('one'));

  const second = new UpstreamBench({ remembered });
  await second.run([httpServerOf('a'), script]);
  answerText(await second.call('a', toolCall(clientOf('one'))));
  const resumed = script.links.find((link) => link.facts?.resumeSessionId !== undefined)!;
  assert.equal(resumed.facts?.resumeSessionId, 'upstream-1');
  assert.equal(resumed.count('initialize'), 0);
  assert.equal(resumed.count('tools/call'), 1);
  await second.set.close('shutdown');

  const third = new UpstreamBench({ remembered });
  script.handlers['ping'] = (_params, link) => {
    link.end({ kind: 'session_lost' }, 'NOT_SENT');
    return SILENCE;
  };
  await third.run([httpServerOf('a'), script]);
  answerText(await third.call('a', toolCall(clientOf('one'))));
  assert.equal(script.last.count('initialize'), 1);
  assert.deepEqual(third.events.lost, ['one']);
});

test('check:C7 fault:F22 a lost HTTP session is replaced once; unsent calls are sent in the new one, sent ones are UNKNOWN', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({
    ...statefulServer(),
    'tools/call': (_params, link) => (link.number === 1 ? SILENCE : {}),
  });
  await bench.run([httpServerOf('a'), script]);
  const client = clientOf('one');
  const unsent = bench.call('a', toolCall(client, '{"name":"echo"}', '1'));
  const sent = bench.call('a', toolCall(client, '{"name":"echo"}', '2'));
  await settled();
  const [first, second] = script.last.seen.filter((seen) => seen.method === 'tools/call');
  script.last.lose(second!.id as number, 'UNKNOWN');
  script.last.lose(first!.id as number, 'NOT_SENT');
  script.last.end({ kind: 'session_lost' });
  answerText(await unsent);
  assert.equal(failureOf(await sent).outcome, 'UNKNOWN');
  assert.equal(script.links.length, 2);
  assert.equal(script.last.count('initialize'), 1);
  assert.deepEqual(bench.events.lost, ['one']);
  assert.equal(bench.set.status('a')?.consecutiveFailures, 0);
});

test('check:C7 fault:F22 a dropped session is replaced at once; after six in a row that were dropped unused and at once, back-off follows', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a'), script]);
  const client = clientOf('one');
  for (let sessions = 1; sessions <= 3; sessions++) {
    answerText(await bench.call('a', toolCall(client)));
    assert.equal(script.links.length, sessions);
    script.last.end({ kind: 'session_lost' }, 'NOT_SENT');
    await settled();
    assert.equal(script.links.length, sessions + 1);
  }
  for (const [ms, state, sessions] of [
    [1_000, 'connected', 5],
    [999, 'connected', 6],
    [0, 'connected', 7],
    [0, 'connected', 8],
    [0, 'connected', 9],
    [0, 'connected', 10],
    [0, 'failed', 10],
  ] as const) {
    await bench.clock.advance(ms);
    script.last.end({ kind: 'session_lost' }, 'NOT_SENT');
    await settled();
    assert.deepEqual([bench.set.status('a')?.state, script.links.length], [state, sessions]);
  }
  await bench.clock.advance(30_000);
  answerText(await bench.call('a', toolCall(client)));
});

test('check:C7 fault:F22 a server that answers 404 to each new session is asked for five more at once, then with back-off', {
  timeout: 20_000,
}, async () => {
  let dropping = true;
  const server = await StatefulServer.start({
    intercept: ({ method }, { res }) => {
      if (method !== 'notifications/initialized' || !dropping) return false;
      res.writeHead(404).end();
      return true;
    },
  });
  const bench = new UpstreamBench();
  const there = { open: () => makeTransport('http', server.url, { clock: bench.clock }) };
  const sessions = () => server.stage.of('POST').filter(({ body }) => parseRpc(body).method === 'initialize').length;
  const state = () => bench.set.status('a')?.state;
  try {
    await bench.run([httpServerOf('a', { start: 'eager' }), there as unknown as ScriptedServer]);
    await eventually(() => state() === 'failed');
    assert.equal(sessions(), 6);
    await bench.clock.advance(30_000);
    await eventually(() => sessions() === 12 && state() === 'failed');
    dropping = false;
    await bench.clock.advance(60_000);
    answerText(await bench.call('a', toolCall(clientOf('one'))));
  } finally {
    await bench.set.close('interrupt');
    await server.stop();
  }
});

test('the loss of state that a process kept for a session is reported once after the gateway’s end', async () => {
  const remembered = new Remembered();
  const first = new UpstreamBench({ remembered });
  await first.run([serverOf('a'), statefulScript()]);
  answerText(await first.call('a', toolCall(clientOf('one'))));
  await first.set.close('shutdown');

  const second = new UpstreamBench({ remembered });
  const script = statefulScript();
  await second.run([serverOf('a'), script]);
  answerText(await second.call('a', toolCall(clientOf('two'))));
  assert.deepEqual(second.events.lost, []);
  answerText(await second.call('a', toolCall(clientOf('one'))));
  assert.deepEqual(second.events.lost, ['one']);
  script.last.end();
  answerText(await second.call('a', toolCall(clientOf('one'))));
  assert.deepEqual(second.events.lost, ['one', 'one']);
  second.set.releaseSession('one');
  assert.equal(failureOf(await second.call('a', toolCall(clientOf('one')))).code, 'CANCELLED');
  assert.deepEqual(second.events.lost, ['one', 'one']);
});

test('the gateway continues the same session at an HTTP server that was away for a while', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const { initialize } = script.handlers;
  script.handlers['initialize'] = (params, link, id) => {
    link.sessionId('kept');
    return initialize!(params, link, id);
  };
  await bench.run([httpServerOf('a'), script]);
  const client = clientOf('one');
  answerText(await bench.call('a', toolCall(client)));
  const answering = script.handlers['tools/call']!;
  script.handlers['tools/call'] = (_params, link, id) => {
    link.lose(id, 'NOT_SENT');
    return SILENCE;
  };
  failureOf(await bench.call('a', toolCall(client)));
  script.handlers['tools/call'] = answering;
  await bench.clock.advance(30_000);
  answerText(await bench.call('a', toolCall(client)));
  assert.equal(script.last.facts?.resumeSessionId, 'kept');
  assert.equal(script.links[0]!.closedWith, 'shutdown');
  assert.deepEqual(bench.events.lost, []);
});
