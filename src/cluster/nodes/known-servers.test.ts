import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onNodes, serverNamed } from '../../../test/support/cluster-bench.ts';

test('a node knows what only others have, and which node has another definition of a name', () =>
  onNodes(async (nodes) => {
    const own = serverNamed('own');
    const files = serverNamed('files', { description: 'of b and c' });
    const a = await nodes.join('a', [own]);
    for (const id of ['c', 'b']) await nodes.join(id, [own, files]);
    const { known } = a.cluster;
    assert.deepEqual(known.server('files')?.nodes, ['b', 'c']);
    assert.equal(known.server('files')?.server.description, 'of b and c');
    assert.deepEqual([known.server('own'), known.server('nobodys')], [null, null]);
    assert.deepEqual(known.against(files), [], 'the same definition is another home of it');
    assert.deepEqual(known.against(serverNamed('files', { timeoutMs: 1 })), ['b', 'c']);
    assert.deepEqual(known.against(serverNamed('Files', { description: 'of b and c' })), ['b', 'c']);
    assert.deepEqual(known.against(serverNamed('other')), []);
  }));
