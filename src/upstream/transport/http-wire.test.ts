import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callEcho, echoed, initialize, notify, openBench } from '../../../test/fixtures/http/bench.ts';
import { LegacySseServer } from '../../../test/fixtures/http/legacy-sse.ts';
import { StatefulServer } from '../../../test/fixtures/http/stateful.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { HttpClientPort } from '../../http/client/client-port.ts';
import { openHttpClient } from '../../http/client/open-http-client.ts';
import { PhaseTimes } from '../../http/client/phase-times.ts';
import { systemClock } from '../../model/clock.ts';
import { HttpClientShare } from './http-wire.ts';

const LIMIT = { timeout: 20_000 };

test('transports of one server share connections, and one that ends leaves them to the others', LIMIT, async (t) => {
  const server = await StatefulServer.start({ listen: 405 });
  t.after(() => server.stop());
  const clock = new FakeClock();
  const share = new HttpClientShare(clock);
  let phases = new PhaseTimes();
  let opened = 0;
  let closed = 0;
  const openClient = (url: URL): HttpClientPort =>
    share.lease('digest', phases, () => {
      opened++;
      const client = openHttpClient(url);
      const close = (): void => {
        closed++;
        client.close();
      };
      return { request: (...args) => client.request(...args), close };
    });
  const benches = [];
  for (let i = 0; i < 20; i++) {
    const bench = await openBench('http', server.url, { openClient });
    benches.push(bench);
    await initialize(bench, 1);
    callEcho(bench, 2);
    await echoed(bench, 2);
  }
  assert.equal(opened, 1);
  assert.ok(server.stage.connections <= 3, `${server.stage.connections} connections`);
  const [first, ...others] = benches;
  for (const bench of others) {
    await bench.transport.close('interrupt');
    await bench.transport.close('interrupt');
  }
  assert.equal(closed, 0);
  callEcho(first!, 3);
  assert.equal(await echoed(first!, 3), 'hello');
  await first!.transport.close('interrupt');
  await clock.advance(199);
  const next = await openBench('http', server.url, { openClient });
  await clock.advance(1_000);
  assert.deepEqual([opened, closed], [1, 0], 'a session that follows within a moment uses the same connections');
  await next.transport.close('interrupt');
  phases = new PhaseTimes();
  const again = await openBench('http', server.url, { openClient });
  assert.equal(opened, 2, 'a server that was removed and added again has its own connections and their times');
  await again.transport.close('interrupt');
  await clock.advance(200);
  assert.equal(closed, 2);
});

test('a transport that ends cancels its own requests, although it shares connections', LIMIT, async (t) => {
  const silent = await StatefulServer.start({ intercept: (message) => message.method !== 'initialize' });
  const legacy = await LegacySseServer.start({ post: () => true });
  t.after(() => Promise.all([silent.stop(), legacy.stop()]));
  const share = new HttpClientShare(systemClock);
  const openClient = (url: URL): HttpClientPort => share.lease(url.origin, null, () => openHttpClient(url));
  for (const [type, url] of [
    ['http', silent.url],
    ['json', silent.url],
    ['sse', legacy.url],
  ] as const) {
    const { stage } = type === 'sse' ? legacy : silent;
    const keeper = share.lease(new URL(url).origin, null, () => openHttpClient(url));
    const before = stage.requests.length;
    const bench = await openBench(type, url, { openClient, limits: { closeMs: 20 } });
    if (type !== 'sse') bench.transport.negotiated({ era: 'stateful', revision: '2025-11-25' });
    callEcho(bench, 1);
    notify(bench, 'notifications/roots/list_changed');
    await stage.until(() => stage.requests.length >= before + (type === 'sse' ? 3 : 2));
    const running = stage.requests.slice(before).map(({ res }) => new Promise((resolve) => res.on('close', resolve)));
    await bench.transport.close('shutdown');
    await Promise.all(running);
    keeper.close();
  }
});
