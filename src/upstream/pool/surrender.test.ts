import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  type Handler,
  ScriptedServer,
  type ScriptedTransport,
  SILENCE,
  statefulServer,
} from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';

const client = clientOf('s');

/** A server that is up, and from now on does not answer `initialize`. */
async function muteFromNowOn() {
  const bench = new UpstreamBench();
  const handlers = statefulServer();
  const script = new ScriptedServer(handlers);
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('other'))));
  await settled();
  handlers.initialize = () => SILENCE;
  const call = bench.call('a', toolCall(client));
  await settled();
  assert.equal(script.last.count('initialize'), 1);
  return { bench, script, call };
}

/** Makes the connection close only when it is asked to end at once. */
function stubborn(link: ScriptedTransport): void {
  const { promise: gone, resolve: go } = Promise.withResolvers<void>();
  const close = link.close.bind(link);
  link.close = async (how) => {
    await close(how);
    if (how === 'interrupt') go();
    await gone;
  };
}

test('fault:F31 a connection being opened for a session ends at once when another node took the session over', async () => {
  const { bench, script, call } = await muteFromNowOn();
  const opening = script.last;
  bench.set.surrender('a', clientOf('other'));
  assert.deepEqual(opening.closings, []);
  bench.set.surrender('a', client);
  assert.equal(opening.closings[0], 'interrupt');
  assert.equal(failureOf(await call).outcome, 'NOT_SENT');
});

test('fault:F31 a connection that was still opening when its session was given up ends at once on a takeover', async () => {
  const { bench, script, call } = await muteFromNowOn();
  const opening = script.last;
  stubborn(opening);
  bench.set.releaseSession('s');
  await settled();
  assert.ok(!opening.closings.includes('interrupt'));
  bench.set.surrender('a', client);
  assert.ok(opening.closings.includes('interrupt'));
  assert.equal(failureOf(await call).outcome, 'NOT_SENT');
});

test('fault:F31 a singleton that is still starting ends at once when another node has it', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), initialize: () => SILENCE });
  const running = bench.run([serverOf('a', { start: 'eager' }), script]);
  await settled();
  const opening = script.last;
  stubborn(opening);
  assert.equal(opening.count('initialize'), 1);
  bench.set.surrender('a', null);
  assert.ok(opening.closings.includes('interrupt'));
  await running;
  await settled();
  assert.equal(script.live.length, 0);
  assert.equal(bench.set.status('a')?.state, 'stopped');
});

test('fault:F31 a warm connection that is opening, or listed a last time, ends at once with its claim', async () => {
  const bench = new UpstreamBench();
  const handlers: Record<string, Handler> = { ...statefulServer(), 'tools/list': () => SILENCE };
  const script = new ScriptedServer(handlers);
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  await settled();
  handlers.initialize = () => SILENCE;
  void bench.set.catalog('a', clientOf('other', '{"roots":{}}'), 1_000);
  await settled();
  assert.deepEqual(
    script.links.map(({ closings, lines }) => [closings, lines.at(-1)!.includes('tools/list')]),
    [
      [[], true],
      [[], false],
    ],
  );
  bench.set.surrender('a', 'spare');
  for (const link of script.links) assert.equal(link.closings[0], 'interrupt');
});

test('fault:F31 a connection that opens after its session went to another node ends at once', async () => {
  const bench = new UpstreamBench();
  const handlers = statefulServer();
  const script = new ScriptedServer(handlers);
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('other'))));
  await settled();
  const { initialize } = handlers;
  handlers.initialize = (params, link, id) => {
    const send = link.send.bind(link);
    link.send = (parts, outgoing) => {
      send(parts, outgoing);
      if (outgoing.method === 'notifications/initialized') bench.set.surrender('a', client);
    };
    return initialize!(params, link, id);
  };
  assert.equal(failureOf(await bench.call('a', toolCall(client))).outcome, 'NOT_SENT');
  assert.equal(script.last.closings[0], 'interrupt');
  assert.equal(script.last.count('tools/call'), 0);
});

test('a removed principal leaves no connection to the next one of its name', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  await bench.run([serverOf('a', { isolation: 'principal' }), script]);
  const callAs = async (name: string) => {
    const principal = { id: `agent:${name}`, name, servers: null };
    answerText(await bench.call('a', toolCall(clientOf('one', '{}', { principal }))));
  };
  for (const name of ['bob', 'bobby']) await callAs(name);
  assert.equal(script.live.length, 2);
  await bench.set.surrender('a', { removed: 'agent:bob' });
  assert.equal(script.live.length, 1);
  await callAs('bobby');
  assert.equal(script.live.length, 1);
  await callAs('bob');
  assert.equal(script.last.count('initialize'), 1);
  assert.equal(script.live.length, 2);
});

test('the connections of a removed agent end, and not those of an agent whose name begins with its name', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  await bench.run([serverOf('a', { isolation: 'principal' }), script]);
  const agent = (name: string) => ({ ...client, principal: { ...client.principal, id: `agent:${name}`, name } });
  const [removed, other] = [agent('Sales'), agent('Sales Bot')];
  answerText(await bench.call('a', toolCall(removed)));
  answerText(await bench.call('a', toolCall(other)));
  await settled();
  assert.deepEqual([bench.set.ownsConnection('a', removed), bench.set.ownsConnection('a', other)], [true, true]);
  await bench.set.surrender('a', { removed: 'agent:Sales' });
  assert.deepEqual([bench.set.ownsConnection('a', removed), bench.set.ownsConnection('a', other)], [false, true]);
});
