import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onNodes, remoteSpec, serverNamed, TestExchange } from '../../../test/support/cluster-bench.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';

const memory = serverNamed('memory', { transport: remoteSpec });

test('when a node falls silent, only the watching clients that it served are reported', () =>
  onNodes(async (nodes) => {
    const web = serverNamed('web', { transport: remoteSpec, isolation: 'session' });
    const a = await nodes.join('a', [serverNamed('own', { transport: remoteSpec })]);
    const b = await nodes.join('b', [web, memory]);
    await nodes.join('c', [web, serverNamed('files', { transport: remoteSpec })]);
    const at: Record<string, string[]> = { b: [], c: [] };
    for (let i = 0; i < 12; i++) {
      const exchange = new TestExchange(`s${i}`);
      const outcome = await nodes.until(a.cluster.upstreams.call('web', exchange.request, exchange));
      assert.ok(outcome.kind === 'answer');
      const { node } = JSON.parse(outcome.message.body.toString());
      at[node]!.push(`web s${i}`);
      a.events.watching.push({ server: 'web', client: exchange.client });
    }
    assert.ok(at.b!.length > 0 && at.c!.length > 0, JSON.stringify(at));
    for (const server of ['own', 'memory', 'files']) a.events.watching.push({ server, client: clientOf('s0') });
    b.cut();
    await nodes.pass(3_000);
    assert.deepEqual(a.events.silenced.sort(), [...at.b!, 'memory s0'].sort());
  }));

test('a node reports another instance that is new or reachable again, even if it has one itself', () =>
  onNodes(async (nodes) => {
    const only = serverNamed('only', { singleton: true });
    const a = await nodes.join('a', [only]);
    const b = await nodes.join('b', [only]);
    a.events.instancesGainedOf.length = 0;
    a.cut();
    await nodes.pass(60_000);
    assert.deepEqual(a.events.instancesGainedOf, []);
    a.restore();
    await nodes.pass(2_000);
    assert.deepEqual(a.events.instancesGainedOf, ['only']);
    await b.cluster.apply(new Map());
    await nodes.pass(2_000);
    await b.cluster.apply(new Map([['only', only]]));
    await nodes.pass(2_000);
    assert.deepEqual(a.events.instancesGainedOf, ['only', 'only']);
  }));
