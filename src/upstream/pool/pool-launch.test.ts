import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { SILENCE, statefulScript } from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import type { Isolation } from '../../model/server.ts';

test('S1.14 S1.15 W1.2 a start that takes too long fails, and its late connection is closed', async () => {
  const bench = new UpstreamBench({ times: { startupMs: 5_000, probeSilenceMs: 1_000 } });
  const script = statefulScript();
  const { initialize } = script.handlers;
  script.handlers['initialize'] = () => SILENCE;
  script.handlers['server/discover'] = () => SILENCE;
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(clientOf('one')));
  await settled();
  await bench.clock.advance(5_000);
  assert.match(failureOf(await outcome).message, /did not start within 5000 ms/);
  const [link] = script.links;
  link!.respond(link!.lastOf('initialize').id as number, initialize!({}, link!, 0));
  await settled();
  assert.equal(link!.state, 'closed');
  assert.deepEqual(bench.set.status('a')?.connections, []);
});

test('S1.15 a call to an unknown server id fails as NOT_SENT and is not retryable', async () => {
  const bench = new UpstreamBench();
  await bench.run([serverOf('a'), statefulScript()]);
  const error = failureOf(await bench.call('nobody', toolCall(clientOf('one'))));
  assert.deepEqual([error.outcome, error.data.retryable], ['NOT_SENT', false]);
  assert.match(error.message, /no server nobody/);
});

test('S1.15 W1.3 a server that hangs during its start delays no other server', async () => {
  const bench = new UpstreamBench();
  const hanging = statefulScript();
  hanging.handlers['initialize'] = () => SILENCE;
  hanging.handlers['server/discover'] = () => SILENCE;
  await bench.run([serverOf('hanging'), hanging], [serverOf('quick'), statefulScript()]);
  let ended = false;
  void bench.call('hanging', toolCall(clientOf('one'))).then(() => {
    ended = true;
  });
  await settled();
  answerText(await bench.call('quick', toolCall(clientOf('one'))));
  assert.equal(ended, false);
});

for (const [transport, definition] of [
  ['stdio', serverOf],
  ['http', httpServerOf],
] as const) {
  test(`S1.16 check:C4 W1.6 W1.7 over ${transport} each isolation shares connections between callers as documented`, async () => {
    const links: Record<Isolation, number> = { shared: 1, session: 3, principal: 2 };
    for (const [isolation, expected] of Object.entries(links) as [Isolation, number][]) {
      const bench = new UpstreamBench();
      const script = statefulScript();
      await bench.run([definition('a', { isolation }), script]);
      const other = { principal: { id: 'agent:x', name: 'x', servers: null } };
      const clients = [clientOf('one'), clientOf('two'), clientOf('three', '{}', other)];
      for (const client of [...clients, ...clients]) answerText(await bench.call('a', toolCall(client)));
      assert.equal(script.live.length, expected, isolation);
      assert.equal(bench.set.status('a')?.connections.length, expected, isolation);
    }
  });
}

test('S1.16 S1.11 a session’s start that fails leaves no entry, and the next request starts again', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  const { initialize } = script.handlers;
  script.handlers['initialize'] = (_params, link) => {
    link.end();
    return SILENCE;
  };
  failureOf(await bench.call('a', toolCall(clientOf('two'))));
  assert.ok(bench.set.status('a')!.connections.every(({ requests }) => requests > 0));
  script.handlers['initialize'] = initialize!;
  await bench.clock.advance(60_000);
  answerText(await bench.call('a', toolCall(clientOf('two'))));
});

test('S1.17 server ids are sorted, independent of the order of definition', async () => {
  const bench = new UpstreamBench();
  await bench.run(...['c', 'a', 'b10', 'b', 'B'].map((name) => [serverOf(name), statefulScript()] as const));
  const sorted = ['B', 'a', 'b', 'b10', 'c'];
  assert.deepEqual(
    bench.set.servers().map(({ name }) => name),
    sorted,
  );
  assert.deepEqual(
    bench.set.statuses().map(({ name }) => name),
    sorted,
  );
});

test('S1.13 S1.18 S4.17 check:C3 shutdown closes shared and pooled connections concurrently, and waits until they are gone', async () => {
  const bench = new UpstreamBench();
  const scripts = { shared: statefulScript(), own: statefulScript(), warm: statefulScript() };
  await bench.run(
    [serverOf('shared', { isolation: 'shared' }), scripts.shared],
    [serverOf('own'), scripts.own],
    [serverOf('spare'), scripts.warm],
  );
  for (const session of ['one', 'two']) {
    for (const name of ['shared', 'own']) answerText(await bench.call(name, toolCall(clientOf(session))));
  }
  await bench.set.catalog('spare', clientOf('one'), 1000);
  const links = Object.values(scripts).flatMap(({ live }) => live);
  assert.equal(links.length, 4);
  let begun = 0;
  const gates = links.map((link) => {
    const gate = Promise.withResolvers<void>();
    const close = link.close.bind(link);
    link.close = async (how) => {
      begun++;
      await gate.promise;
      await close(how);
    };
    return gate;
  });
  let ended = false;
  const closing = bench.set.close('shutdown').then(() => {
    ended = true;
  });
  for (const gate of gates) {
    await settled();
    assert.equal(begun, links.length);
    assert.equal(ended, false);
    gate.resolve();
  }
  await closing;
  assert.ok(links.every(({ state, closedWith }) => state === 'closed' && closedWith === 'shutdown'));
  assert.equal(bench.clock.pending, 0);
  assert.equal(failureOf(await bench.call('own', toolCall(clientOf('one')))).outcome, 'NOT_SENT');
});

test('S4.17 the close of all servers waits for processes that were already ending, and speeds them up', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  const { last } = script;
  const gate = Promise.withResolvers<void>();
  const close = last.close.bind(last);
  last.close = async (how) => {
    await close(how);
    await gate.promise;
  };
  bench.set.releaseSession('one');
  let ended = false;
  const closing = bench.set.close('interrupt').then(() => {
    ended = true;
  });
  await settled();
  assert.deepEqual([ended, last.closings], [false, ['remove', 'interrupt']]);
  gate.resolve();
  await closing;
});

test('S1.16 above the process limits OVERLOADED names the limit and when to try again', async () => {
  const limits = { maxMessageBytes: 1 << 20, maxProcesses: 1 };
  const bench = new UpstreamBench({ maxProcesses: 2 });
  const [a, b] = [statefulScript(), statefulScript()];
  for (const { handlers } of [a, b]) handlers['tools/call'] = () => SILENCE;
  await bench.run([serverOf('a', { limits }), a], [serverOf('b'), b]);
  for (const name of ['a', 'b']) void bench.call(name, toolCall(clientOf('one')));
  await settled();
  const own = failureOf(await bench.whenLate(bench.call('a', toolCall(clientOf('two')))));
  const all = failureOf(await bench.whenLate(bench.call('b', toolCall(clientOf('two')))));
  for (const error of [own, all]) {
    assert.deepEqual([error.code, error.outcome, error.data.retryable], ['OVERLOADED', 'REFUSED', true]);
    assert.ok((error.data.retryAfterMs ?? 0) > 0);
  }
  assert.match(own.message, /limits\.maxProcesses/);
  assert.match(all.message, /this node runs 2/);
});
