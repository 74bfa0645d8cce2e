import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { openedLate } from '../../../test/support/opened-late.ts';
import { record, SessionRecordsBench } from '../../../test/support/session-records-bench.ts';
import type { SharedState } from '../../bus/shared-state.ts';
import { Logger } from '../../telemetry/logger.ts';

test('check:C9 all nodes receive the changes that one node makes to a session, and its end', async () => {
  const bench = new SessionRecordsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  a.put(record('s1'));
  await settled();
  assert.equal((await b.get('s1'))?.id, 's1');
  b.put(record('s1', { logLevel: 'error' }));
  await settled();
  assert.equal((await a.get('s1'))?.logLevel, 'error');
  assert.deepEqual(await a.all(), [record('s1', { logLevel: 'error' })]);
  b.delete('s1');
  await settled();
  assert.deepEqual(await a.all(), []);
  assert.deepEqual(bench.heard.filter((text) => text.endsWith('gone')).sort(), ['a s1 gone', 'b s1 gone']);
  await bench.close();
});

test('check:C9 a client’s description up to the accepted size is known at all nodes', async () => {
  const bench = new SessionRecordsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  const empty = '"":"",';
  const most = `{${empty.repeat(64 * 1024).slice(0, 64 * 1024 - 2)}}`;
  assert.equal(most.length, 64 * 1024);
  a.put(record('s1', { capabilities: most }));
  await settled();
  assert.deepEqual(await b.all(), [record('s1', { capabilities: most })]);
  await bench.close();
});

test('a client that is faster than the record of its session waits for it', async () => {
  const bench = new SessionRecordsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  const looked = b.get('s1');
  await bench.pass(60);
  a.put(record('s1'));
  await bench.pass(1_000);
  assert.equal((await looked)?.id, 's1');
  await bench.pass(3_000);
  const unknown = b.get('none');
  await bench.pass(1_000);
  assert.equal(await unknown, null);
  await bench.close();
});

test('fault:F28 a node that has just started reports no session as missing, because the store may have lost what others know', async () => {
  const bench = new SessionRecordsBench();
  const b = await bench.node('b');
  const refused = assert.rejects(b.get('s1'), { outcome: 'NOT_SENT', message: /not read the cluster's sessions yet/ });
  await bench.pass(1_000);
  await refused;
  await bench.pass(2_000);
  const unknown = b.get('s1');
  await bench.pass(1_000);
  assert.equal(await unknown, null);
  await bench.close();
});

test('fault:F28 where sessions can be read but not followed, a missing one is reported a moment after the store’s answer', async () => {
  const bench = new SessionRecordsBench();
  let away = false;
  const state: SharedState = {
    bucket: (name, options) => {
      const bucket = bench.state.bucket(name, options);
      const unheard: typeof bucket = Object.create(bucket);
      unheard.get = (key) => (away ? Promise.reject(new Error('away')) : bucket.get(key));
      unheard.watch = () => new Promise(() => {});
      return unheard;
    },
  };
  const lines: string[] = [];
  const logger = new Logger({ level: 'warn', write: (line) => lines.push(line) });
  const [a, b] = [await bench.node('a'), await bench.node('b', state, logger)];
  const refused = async (): Promise<void> => {
    const refusal = assert.rejects(b.get('none'), { outcome: 'NOT_SENT' });
    await bench.pass(1_000);
    await refusal;
  };
  await refused();
  await bench.pass(8_000);
  // The other nodes are about to write the records that they could not write during the outage.
  away = true;
  await refused();
  away = false;
  await refused();
  a.put(record('s1'));
  await settled();
  assert.equal((await b.get('s1'))?.id, 's1');
  await bench.pass(8_000);
  await refused();
  assert.deepEqual(lines, []);
  for (let i = 0; i < 2; i++) {
    const none = b.get('none');
    await bench.pass(1_000);
    assert.equal(await none, null);
  }
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).event),
    ['sessions_not_followed'],
  );
  await bench.close();
});

test('while the store is away no node answers that a session does not exist', async () => {
  const bench = new SessionRecordsBench();
  const b = await bench.node('b', { bucket: (name) => openedLate(name, () => Promise.reject(new Error('away'))) });
  const looked = b.get('s1');
  const refused = assert.rejects(looked, { outcome: 'NOT_SENT', message: /cannot be read/ });
  await bench.pass(1_000);
  await refused;
  await bench.close();
});

test('check:C9 fault:F28 a node that ends while the store returns writes what it opened meanwhile', async () => {
  const bench = new SessionRecordsBench();
  let away = true;
  const [a, b] = [
    await bench.node('a', {
      bucket: (...of) =>
        openedLate(of[0], async () => (away ? Promise.reject(new Error('away')) : bench.state.bucket(...of))),
    }),
    await bench.node('b'),
  ];
  a.put(record('s1'));
  await bench.pass(100);
  let ended = false;
  const closing = a.close().then(() => (ended = true));
  await bench.pass(1_500);
  assert.equal(ended, false, 'it waits for a moment');
  away = false;
  await bench.pass(1_600);
  await closing;
  assert.equal((await b.get('s1'))?.id, 's1');
  await bench.close();
});

test('a node whose store stays away still ends', async () => {
  const bench = new SessionRecordsBench();
  const a = await bench.node('a', { bucket: (name) => openedLate(name, () => Promise.reject(new Error('away'))) });
  a.put(record('s1'));
  await bench.close();
});

test('writes of one session are in order: a late write does not bring back an ended session', async () => {
  const bench = new SessionRecordsBench();
  let hold: Promise<unknown> = Promise.resolve();
  const state: SharedState = {
    bucket: (name, options) => {
      const bucket = bench.state.bucket(name, options);
      const slow: typeof bucket = Object.create(bucket);
      slow.restore = (key, value) => hold.then(() => bucket.restore(key, value));
      slow.delete = (key, revision) => bucket.delete(key, revision);
      slow.get = (key) => bucket.get(key);
      slow.watch = (pattern, watcher) => bucket.watch(pattern, watcher);
      return slow;
    },
  };
  const a = await bench.node('a', state);
  const { promise, resolve } = Promise.withResolvers<void>();
  hold = promise;
  a.put(record('s1'));
  await settled();
  a.delete('s1');
  await settled();
  resolve();
  await bench.pass(1_000);
  const b = await bench.node('b');
  assert.deepEqual(await b.all(), []);
  await bench.close();
});

test('while the store is away a node knows its sessions, and then writes the newest state of each', async () => {
  const bench = new SessionRecordsBench();
  let away = true;
  const state: SharedState = {
    bucket: (name, options) =>
      openedLate(name, async () => (away ? Promise.reject(new Error('away')) : bench.state.bucket(name, options))),
  };
  const a = await bench.node('a', state);
  a.put(record('s1'));
  a.put(record('s2'));
  a.delete('s2');
  await bench.pass(3_000);
  assert.equal((await a.get('s1'))?.id, 's1');
  assert.equal(await a.get('s2'), null);
  away = false;
  await bench.pass(2_000);
  const b = await bench.node('b');
  assert.deepEqual(
    (await b.all()).map(({ id }) => id),
    ['s1'],
  );
  await bench.close();
});

test('a store that accepts nothing gets 64 writes at a time, not one for every session', async () => {
  const bench = new SessionRecordsBench();
  let asked = 0;
  const state: SharedState = {
    bucket: (name, options) => {
      const bucket = bench.state.bucket(name, options);
      const full: typeof bucket = Object.create(bucket);
      full.restore = async () => {
        asked++;
        throw new Error('full');
      };
      full.watch = (pattern, watcher) => bucket.watch(pattern, watcher);
      return full;
    },
  };
  const a = await bench.node('a', state);
  for (let i = 0; i < 1_000; i++) a.put(record(`s${i}`));
  await bench.pass(500);
  assert.equal(asked, 64);
  await bench.close();
});

test('check:C9 a level is acknowledged when all nodes have it', async () => {
  const bench = new SessionRecordsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  a.put(record('s1'));
  await settled();
  const put = a.putEverywhere(record('s1', { logLevel: 'error' }));
  await settled();
  await bench.clock.advance(5);
  await put;
  assert.equal((await b.get('s1'))?.logLevel, 'error');
  assert.ok(bench.heard.includes('a s1 error') && bench.heard.includes('b s1 error'));
  await bench.close();
});
