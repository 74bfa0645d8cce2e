import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { statefulScript } from '../../../test/support/scripted-server.ts';
import { httpServerOf, serverOf, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { isListening } from '../../http/listener/listen-error.ts';
import { GatewayError } from '../../model/gateway-error.ts';

function rigOf(listening: () => boolean) {
  const looks: string[] = [];
  const bench = new UpstreamBench({
    reachable: (url) => {
      looks.push(url);
      return Promise.resolve(listening());
    },
  });
  const script = statefulScript();
  script.openFails = new GatewayError('NOT_SENT', 'connection refused');
  return { bench, script, looks };
}

const eager = httpServerOf('a', { start: 'eager' });

test('check:F9 S2.26 the gateway looks for a missing remote server every 500 ms, and the server is up a moment after it listens', async () => {
  let listening = false;
  const { bench, script, looks } = rigOf(() => listening);
  await bench.run([eager, script]);
  await bench.clock.advance(4_900);
  assert.equal(looks.length, 9);
  assert.equal(looks[0], 'http://127.0.0.1/a');
  assert.equal(script.links.length, 1, 'a look is not an attempt to connect');
  listening = true;
  script.openFails = null;
  await bench.clock.advance(500);
  assert.equal(bench.set.status('a')!.state, 'connected');
  assert.equal(bench.set.status('a')!.consecutiveFailures, 0);
  const seen = looks.length;
  // From now on only the supervisor's backoff applies.
  script.openFails = new GatewayError('NOT_SENT', 'connection refused');
  script.last.end({ kind: 'unreachable', error: script.openFails });
  await bench.clock.advance(10_000);
  assert.equal(looks.length, seen);
  await bench.set.close('shutdown');
  assert.equal(bench.clock.pending, 0);
});

test('check:F9 the gateway stops looking after 30 s, and does not try a server that listens without serving at every look', async () => {
  const { bench, script, looks } = rigOf(() => true);
  await bench.run([eager, script], [serverOf('local', { start: 'eager' }), statefulScript()]);
  await bench.clock.advance(29_999);
  assert.ok(looks.length > 50 && looks.length < 60, `${looks.length}`);
  assert.ok(script.links.length >= 5 && script.links.length <= 8, `${script.links.length}`);
  assert.equal(bench.set.status('a')!.consecutiveFailures, 1, 'attempts before their time do not count');
  await bench.clock.advance(1);
  const before = looks.length;
  await bench.clock.advance(120_000);
  assert.equal(looks.length, before);
});

test('check:F9 the gateway does not look for a server that is suspended or removed meanwhile', async () => {
  const { bench, script, looks } = rigOf(() => false);
  await bench.run([eager, script]);
  await bench.clock.advance(1_000);
  assert.equal(looks.length, 2);
  await bench.set.apply(new Map([['a', httpServerOf('a', { start: 'eager', enabled: false })]]));
  await bench.clock.advance(5_000);
  assert.equal(looks.length, 2);
  await bench.set.apply(new Map());
  await settled();
  assert.equal(bench.clock.pending, 1, 'only the sweep is pending');
});

test('the probe finds out whether an address has a listener', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  assert.equal(await isListening(`http://127.0.0.1:${port}/mcp`), true);
  await new Promise((resolve) => server.close(resolve));
  assert.equal(await isListening(`http://127.0.0.1:${port}/mcp`), false);
  assert.equal(await isListening('nonsense'), false);
});
