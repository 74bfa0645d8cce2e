import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findUser, spawnTurn } from './spawn-child.ts';

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
  assert.equal(spawnTurn(), null, 'without an earlier start in the turn there is no wait');
});

const PASSWD = `root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin
broken:x
7:x:1007:1007::/home/seven:/bin/sh
`;

test('fault:F41 users are found by name and by number; a number needs no entry, a name does', () => {
  const nobody = { uid: 65534, gid: 65533, name: 'nobody', home: '/nonexistent' };
  assert.deepEqual(findUser(PASSWD, 'nobody'), nobody);
  assert.deepEqual(findUser(PASSWD, '65534'), nobody);
  assert.deepEqual(findUser(PASSWD, '64123'), { uid: 64123, gid: 64123, name: null, home: '/' });
  assert.deepEqual(findUser(PASSWD, '7'), { uid: 7, gid: 7, name: null, home: '/' });
  assert.equal(findUser(PASSWD, 'broken'), null);
  assert.equal(findUser(PASSWD, 'somebody'), null);
});
