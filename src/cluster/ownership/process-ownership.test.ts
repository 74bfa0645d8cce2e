import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callOf, onNodes, serverNamed } from '../../../test/support/cluster-bench.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';

const MEMORY = serverNamed('memory', { isolation: 'session' });

test('fault:F31 a warm process whose claim was lost while it waited goes to no client', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    const { ownership } = a.cluster;
    const warm = await ownership.acquire(MEMORY, clientOf(null), 'spare');
    a.local.keeps = true;
    const waiting = callOf(a, 'memory', 'one');
    await nodes.pass(100);
    assert.equal(ownership.mayAdopt(MEMORY, clientOf('one')), true);
    a.cut();
    await nodes.pass(5_000);
    assert.equal((await waiting).kind, 'failure');
    assert.equal((await nodes.until(callOf(b, 'memory', 'one'))).kind, 'answer');
    a.restore();
    await nodes.pass(2_000);
    assert.deepEqual([warm.isHeld, ownership.mayAdopt(MEMORY, clientOf('one'))], [true, false]);
    assert.throws(() => warm.assignTo(clientOf('one')), /does not own/);
    await assert.rejects(ownership.acquire(MEMORY, clientOf('one'), 'session'), /b/);
  }));
