import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Claim, OwnClaims } from './own-claims.ts';

function claim(server: string, key: string, since: number): Claim {
  return new Claim({ server, key, fresh: true, forgotten: 0, client: null, since }, '17');
}

test('a node finds its claims by server and key as two separate parts', () => {
  const claims = new OwnClaims();
  const one = claim('a b', 'c', 1);
  const other = claim('a', 'b c', 2);
  claims.set(one);
  claims.set(other);
  assert.equal(claims.get('a b', 'c'), one);
  assert.equal(claims.get('a', 'b c'), other);
  assert.equal(claims.get('a', 'c'), undefined);
  assert.deepEqual([...claims.values()], [one, other]);
  assert.equal(claims.size, 2);
  claims.delete(one);
  claims.delete(one);
  assert.deepEqual([claims.size, claims.get('a b', 'c')], [1, undefined]);
  assert.deepEqual([one.held, other.held], [false, true]);
  const again = claim('a', 'b c', 3);
  claims.set(again);
  assert.deepEqual([claims.size, claims.get('a', 'b c')], [1, again]);
  assert.deepEqual([other.held, again.held], [false, true]);
  claims.clear();
  assert.deepEqual([claims.size, [...claims.values()].length], [0, 0]);
  assert.equal(again.held, false);
});

test('the epoch of a claim is that of its first write, however often it was written since', () => {
  const held = claim('a', 'k', 12);
  held.revision = 40;
  assert.equal(held.epoch, '17.12');
});
