import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import { SharedHellos } from './used-sessions.ts';

function record(identity: string, hello: string): UpstreamSessionRecord {
  return { identity, mcpSessionId: 's', hello, revision: '2025-11-25', fingerprint: '{}' };
}

test('what a server says of itself is kept once for all its sessions, and forgotten with the last of them', () => {
  const hellos = new SharedHellos();
  const [first, second] = [hellos.taken(record('web', 'hello')), hellos.taken(record('web', `${'hel'}lo`))];
  assert.equal(first.hello, second.hello);
  const other = hellos.taken(record('web', 'another'));
  assert.equal(other.hello, 'another');
  assert.equal(hellos.size, 1);
  hellos.left(other);
  hellos.left(first);
  assert.equal(hellos.size, 1);
  hellos.left(second);
  assert.equal(hellos.size, 0);
});
