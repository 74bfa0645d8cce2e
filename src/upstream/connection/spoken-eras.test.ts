import assert from 'node:assert/strict';
import { test } from 'node:test';
import { result } from '../../protocol/compose.ts';
import { handshakeFromInitialize } from '../../protocol/handshake-results.ts';
import { LastHandshake } from './spoken-eras.ts';

function handshake(version: string) {
  const text = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"${version}"}}`;
  return handshakeFromInitialize(result('1', text, 'stateful'));
}

test('connections of a server share what it says of itself, and keep what it said to each alone', () => {
  const last = new LastHandshake();
  const first = last.of(handshake('1'));
  assert.equal(last.of(handshake('1')), first);
  const second = last.of(handshake('2'));
  assert.notEqual(second, first);
  assert.match(second.result.toString(), /"version":"2"/);
  assert.equal(last.of(handshake('2')), second);
  const other = { ...handshake('2'), revision: '2025-06-18' };
  assert.equal(last.of(other), other);
});
