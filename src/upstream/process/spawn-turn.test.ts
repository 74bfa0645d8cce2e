import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spawnTurn } from './spawn-turn.ts';

test('goal:G13 processes are started one in each turn of the event loop, in order', async () => {
  let turn = 0;
  let over = false;
  const count = (): void => {
    turn++;
    if (!over) setImmediate(count);
  };
  count();
  const begun: { readonly who: number; readonly turn: number }[] = [];
  const start = async (who: number): Promise<void> => {
    const wait = spawnTurn();
    if (wait !== null) await wait;
    begun.push({ who, turn });
  };
  await Promise.all(Array.from({ length: 20 }, (_, who) => start(who)));
  for (let i = 1; i < 20; i++) {
    assert.equal(begun[i]?.who, i);
    assert.ok(begun[i]!.turn > begun[i - 1]!.turn, JSON.stringify(begun));
  }
  await new Promise((done) => setImmediate(() => setImmediate(done)));
  over = true;
  assert.equal(spawnTurn(), null, 'nobody waits where nobody is before');
});
