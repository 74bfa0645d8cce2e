import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import { SILENCE, statefulScript, statelessScript } from '../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../test/support/upstream-bench.ts';
import { Logger } from '../telemetry/logger.ts';
import type { Connection } from './connection/connection.ts';
import { UPSTREAM_TIMES, type UpstreamSetDeps } from './server-context.ts';
import { ServerHistory } from './status/server-history.ts';
import { type NodeShared, UpstreamParts } from './upstream-parts.ts';

/** The events about connections, with which the gateway renews the state that was set up on them. */

async function called(bench: UpstreamBench, client = clientOf('session-1')): Promise<void> {
  await bench.call('a', toolCall(client));
  await settled();
}

test('check:B8 when a session’s connection dies, events report the end, then its successor as opened, then as renewed once listed', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  await called(bench);
  assert.deepEqual(bench.events.connections, ['opened session-1']);
  script.last.end();
  await bench.clock.advance(5_000);
  await called(bench);
  assert.deepEqual(bench.events.connections.slice(1), ['ended session-1', 'opened session-1', 'renewed session-1']);
  assert.ok(script.last.count('tools/list') >= 1, 'listed before it was reported');
});

test('check:B8 a restart by the operator reports the same events, except for a session that has ended meanwhile', async () => {
  const bench = new UpstreamBench();
  await bench.run([serverOf('a'), statefulScript()]);
  await called(bench);
  await called(bench, clientOf('session-2'));
  const restarted = bench.set.restart('a');
  for (let i = 0; i < 5; i++) {
    await settled();
    await bench.clock.advance(1_000);
  }
  await restarted;
  bench.set.releaseSession('session-2');
  await called(bench);
  // A request in flight opens no connection for the ended session.
  assert.equal(failureOf(await bench.call('a', toolCall(clientOf('session-2')))).code, 'CANCELLED');
  assert.deepEqual(bench.events.connections.slice(2), [
    'ended session-1',
    'ended session-2',
    'opened session-1',
    'renewed session-1',
  ]);
});

test('check:B8 the connection that all clients of a stateless server share has one key', async () => {
  const bench = new UpstreamBench();
  const script = statelessScript();
  await bench.run([serverOf('a'), script]);
  await called(bench, clientOf(null));
  await called(bench, clientOf(null, '{"roots":{}}'));
  assert.deepEqual(bench.events.connections, ['opened stateless shared']);
  assert.equal(bench.set.sessionKey('a', clientOf(null)), 'stateless shared');
  script.last.end();
  await bench.clock.advance(5_000);
  await settled();
  assert.deepEqual(bench.events.connections.slice(1), [
    'ended stateless shared',
    'opened stateless shared',
    'renewed stateless shared',
  ]);
});

test('fault:F28 new calls leave a connection whose session was superseded while nodes were apart; its own calls finish', async () => {
  const bench = new UpstreamBench();
  const { eraVerdicts } = bench.stores;
  const { clock, events, metrics } = bench;
  const deps = { clock, events, metrics, eraVerdicts, logger: Logger.silent() } as unknown as UpstreamSetDeps;
  const node = { deps, limits: {}, times: UPSTREAM_TIMES } as unknown as NodeShared;
  const parts = new UpstreamParts(serverOf('a'), node, new ServerHistory('a', null), [], { status: assert.fail });
  const forgotten: unknown[] = [];
  parts.connections.pool.forget = (connection) => {
    forgotten.push(connection);
    return null;
  };
  const reported: string[] = [];
  let finish = (): void => {};
  const connection = {
    joined: { leave: () => reported.push('left') },
    drained: () => new Promise<void>((resolve) => (finish = resolve)),
    close: async (how: string) => void reported.push(how),
  } as unknown as Connection;
  parts.superseded(connection);
  await settled();
  assert.deepEqual(forgotten, [connection]);
  assert.deepEqual(reported, ['left']);
  finish();
  await settled();
  assert.deepEqual(reported, ['left', 'remove']);
});

test('fault:F05 a process that hangs is ended at once, and its successor starts when nothing of it is left', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  await called(bench);
  const hung = script.last;
  const { promise: gone, resolve: go } = Promise.withResolvers<void>();
  const close = hung.close.bind(hung);
  hung.close = async (how) => {
    await close(how);
    await gone;
  };
  script.handlers['ping'] = () => SILENCE;
  await bench.clock.advance(45_000);
  assert.equal(hung.closings[0], 'interrupt');
  const call = bench.call('a', toolCall(clientOf('session-1')));
  await settled();
  assert.deepEqual([script.links.length, script.live.length], [1, 0]);
  go();
  answerText(await call);
  assert.equal(script.live.length, 1);
});
