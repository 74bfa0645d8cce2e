import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import { SharedHandshakes } from './used-sessions.ts';

function record(identity: string, hello: string): UpstreamSessionRecord {
  return { identity, mcpSessionId: 's', hello, revision: '2025-11-25', fingerprint: '{}' };
}

test('a server’s handshake result is kept once for all its sessions, and dropped with the last of them', () => {
  const handshakes = new SharedHandshakes();
  const [first, second] = [handshakes.taken(record('web', 'hello')), handshakes.taken(record('web', `${'hel'}lo`))];
  assert.equal(first.hello, second.hello);
  const other = handshakes.taken(record('web', 'another'));
  assert.equal(other.hello, 'another');
  assert.equal(handshakes.size, 1);
  handshakes.left(other);
  handshakes.left(first);
  assert.equal(handshakes.size, 1);
  handshakes.left(second);
  assert.equal(handshakes.size, 0);
});
