import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findUser } from './run-as.ts';

const PASSWD = `root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin
broken:x
7:x:1007:1007::/home/seven:/bin/sh
`;

test('fault:F41 users by name and by number; a number needs no entry, a name does', () => {
  const nobody = { uid: 65534, gid: 65533, name: 'nobody', home: '/nonexistent' };
  assert.deepEqual(findUser(PASSWD, 'nobody'), nobody);
  assert.deepEqual(findUser(PASSWD, '65534'), nobody);
  assert.deepEqual(findUser(PASSWD, '64123'), { uid: 64123, gid: 64123, name: null, home: '/' });
  assert.deepEqual(findUser(PASSWD, '7'), { uid: 7, gid: 7, name: null, home: '/' });
  assert.equal(findUser(PASSWD, 'broken'), null);
  assert.equal(findUser(PASSWD, 'somebody'), null);
});
