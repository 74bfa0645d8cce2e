import assert from 'node:assert/strict';
import { test } from 'node:test';
import { result } from '../../protocol/compose.ts';
import { handshakeFromInitialize } from '../../protocol/handshake-results.ts';
import { sameHandshake } from './spoken-eras.ts';

function handshake(version: string) {
  const text = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"${version}"}}`;
  return handshakeFromInitialize(result('1', text, 'stateful'));
}

test('handshakes are the same where a server says the same of itself in the same revision', () => {
  assert.ok(sameHandshake(handshake('1'), handshake('1')));
  assert.ok(!sameHandshake(handshake('1'), handshake('2')));
  assert.ok(!sameHandshake(handshake('1'), { ...handshake('1'), revision: '2025-06-18' }));
});
