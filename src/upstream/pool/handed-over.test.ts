import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, type ScriptedTransport, statefulServer } from '../../../test/support/scripted-server.ts';
import { answerText, clientOf, serverOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';

/** Delays the end of the connection until the returned function runs. */
function slow(link: ScriptedTransport): () => void {
  const { promise: gone, resolve: go } = Promise.withResolvers<void>();
  const close = link.close.bind(link);
  link.close = async (how) => {
    await close(how);
    await gone;
  };
  return go;
}

async function used(...sessions: readonly string[]) {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  await bench.run([serverOf('a'), script]);
  for (const session of sessions) answerText(await bench.call('a', toolCall(clientOf(session))));
  await settled();
  return { bench, script };
}

test('fault:F33 a session is handed over when its connection was shut down in order and has ended', async () => {
  const { bench, script } = await used('other', 's');
  const go = slow(script.last);
  let over = false;
  const handed = bench.set.handOver('a', clientOf('s')).then(() => (over = true));
  await settled();
  assert.deepEqual(
    script.links.map(({ closings }) => closings),
    [[], ['shutdown']],
  );
  assert.equal(over, false);
  assert.equal(bench.events.connections.at(-1), 'ended s');
  go();
  await handed;
  answerText(await bench.call('a', toolCall(clientOf('other'))));
  assert.equal(bench.set.status('a')?.state, 'running');
});

test('fault:F33 the hand-over waits for a connection of the session that is already ending', async () => {
  const { bench, script } = await used('s');
  const go = slow(script.last);
  bench.set.releaseSession('s');
  await settled();
  let over = false;
  const handed = bench.set.handOver('a', clientOf('s')).then(() => (over = true));
  await settled();
  assert.deepEqual(script.last.closings, ['remove', 'shutdown']);
  assert.equal(over, false);
  go();
  await handed;
});

test('fault:F33 a singleton is handed over after all its connections ended, and sessions are notified of a restart', async () => {
  const { bench, script } = await used('one', 'two');
  await bench.set.handOver('a', null);
  assert.equal(script.live.length, 0);
  assert.equal(bench.set.status('a')?.state, 'stopped');
  assert.deepEqual(bench.events.lost.toSorted(), ['one', 'two']);
  assert.deepEqual(new Set(bench.events.causes), new Set(['restarted']));
});
