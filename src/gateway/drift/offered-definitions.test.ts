import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../catalog/drift/definition-digest.ts';
import { OfferedDefinitions } from './offered-definitions.ts';

test('at most 4 MiB of definitions that a server shows but does not list are kept', () => {
  const offered = new OfferedDefinitions();
  const found = (key: string, length: number): void => {
    const bytes = Buffer.from(JSON.stringify({ name: key, description: 'x'.repeat(length) }));
    offered.foundUnlisted('s', { list: 'tools', key, digest: digestOf({ bytes }), bytes });
  };
  for (const key of ['a', 'b', 'c', 'd', 'e']) found(key, 1_000_000);
  found('small', 10);
  const kept = Array.from(offered.definitions('s'), ({ key }) => key);
  assert.deepEqual(kept, ['a', 'b', 'c', 'd', 'small']);
});
