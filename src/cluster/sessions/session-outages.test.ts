import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { openedLate } from '../../../test/support/opened-late.ts';
import { record, SessionRecordsBench } from '../../../test/support/session-records-bench.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import type { Bucket, SharedState, StateRecord } from '../../bus/shared-state.ts';

/**
 * A store whose watches can begin again, as after an outage; `lose`: it loses all records; `unread`: keys that it has but
 * does not find.
 */
function outages(bench: SessionRecordsBench) {
  let store: SharedState = bench.state;
  const begun: (() => Promise<unknown>)[] = [];
  const unread = new Set<string>();
  const state: SharedState = {
    bucket(name, options) {
      return openedLate(name, async () => {
        const at = async (): Promise<Bucket> => store.bucket(name, options);
        return {
          name,
          incarnation: (await at()).incarnation,
          get: async (key) => (unread.has(key) ? null : (await at()).get(key)),
          look: async (key) => (unread.has(key) ? null : (await at()).look(key)),
          create: async (key, value) => (await at()).create(key, value),
          restore: async (key, value) => (await at()).restore(key, value),
          update: async (key, value, revision) => (await at()).update(key, value, revision),
          delete: async (key, revision) => (await at()).delete(key, revision),
          purgeTombstones: async (olderThanMs) => (await at()).purgeTombstones(olderThanMs),
          keys: async (pattern) => (await at()).keys(pattern),
          watch: async (pattern, watcher) => {
            const begin = async () => {
              // The watch is closed at once, so it reports no later changes.
              const put = (record: StateRecord): void => void (unread.has(record.key) || watcher.put(record));
              const all = { ...watcher, put, gone: watcher.gone.bind(watcher) };
              (await (await at()).watch(pattern, all)).close();
            };
            begun.push(begin);
            await begin();
            return { close: () => {} };
          },
        };
      });
    },
  };
  const again = async (): Promise<void> => {
    for (const begin of begun) await begin();
  };
  const lose = (): void => {
    const other = new MemorySharedState(bench.clock);
    // Its buckets have other incarnations.
    store = {
      bucket: (name, options) => {
        other.bucket('before', options);
        return other.bucket(name, options);
      },
    };
  };
  return { state, again, lose, unread };
}

test('a session that ended while a node did not listen ends there when it listens again', async () => {
  const bench = new SessionRecordsBench();
  const { state, again } = outages(bench);
  const b = await bench.node('b');
  const a = await bench.node('a', state);
  b.put(record('s1'));
  await settled();
  await again();
  assert.equal((await a.all()).length, 1);
  b.delete('s1');
  await settled();
  assert.equal((await a.all()).length, 1);
  await again();
  await settled();
  assert.deepEqual(await a.all(), []);
  assert.ok(bench.heard.includes('a s1 gone'));
  await bench.close();
});

test('fault:F28 after an outage other nodes have a moment to write their sessions: until then no session counts as missing', async () => {
  const bench = new SessionRecordsBench();
  const { state, again } = outages(bench);
  const [a, b] = [await bench.node('a', state), await bench.node('b')];
  await again();
  const refused = assert.rejects(a.get('s1'), { outcome: 'NOT_SENT' });
  await bench.pass(1_000);
  await refused;
  b.put(record('s1'));
  await settled();
  assert.equal((await a.get('s1'))?.id, 's1');
  await bench.pass(3_000);
  const none = a.get('none');
  await bench.pass(1_000);
  assert.equal(await none, null);
  await bench.close();
});

test('fault:F28 sessions are written again to a store that lost everything: none of them ends', async () => {
  const bench = new SessionRecordsBench();
  const { state, again, lose } = outages(bench);
  const a = await bench.node('a', state);
  a.put(record('s1'));
  await settled();
  await again();
  lose();
  await again();
  await bench.pass(100);
  assert.deepEqual(
    bench.heard.filter((text) => text.endsWith('gone')),
    [],
  );
  const b = await bench.node('b', state);
  assert.equal((await b.get('s1'))?.id, 's1');
  await bench.close();
});

test('fault:F28 after a loss of many sessions none counts as missing until nodes have had the time to write them again', async () => {
  const bench = new SessionRecordsBench();
  const { state, again, lose } = outages(bench);
  const a = await bench.node('a', state);
  for (let at = 0; at < 6_000; at++) a.put(record(`s${at}`));
  await bench.pass(100);
  lose();
  await again();
  await bench.pass(4_000);
  const refused = assert.rejects(a.get('none'), { outcome: 'NOT_SENT' });
  await bench.pass(1_000);
  await refused;
  const none = a.get('none');
  await bench.pass(1_000);
  assert.equal(await none, null);
  await bench.close();
});

test('fault:F28 a session that the store does not find and no node ended is neither ended nor overwritten', async () => {
  const bench = new SessionRecordsBench();
  const { state, again, unread } = outages(bench);
  const [a, b] = [await bench.node('a', state), await bench.node('b')];
  b.put(record('s1'));
  b.put(record('s2'));
  await settled();
  await again();
  unread.add('s1');
  await again();
  await settled();
  b.put(record('s1', { logLevel: 'error' }));
  await settled();
  unread.clear();
  await bench.pass(1_100);
  assert.deepEqual(
    bench.heard.filter((text) => text.endsWith('gone')),
    [],
  );
  const known = (await a.all()).map(({ id, logLevel }) => `${id} ${logLevel}`);
  assert.deepEqual(known.sort(), ['s1 error', 's2 null']);
  await bench.close();
});

test('check:C9 fault:F28 a delayed write of a session does not undo what its client did meanwhile at another node', async () => {
  // The level and the time of the last use that each node writes.
  const cases = [
    { waits: ['warning', 9], there: ['debug', 7], left: 'debug' },
    { waits: ['error', 6], there: ['warning', 8], left: 'error' },
    { waits: ['error', 9], there: ['debug', 7], left: 'error' },
    { waits: ['error', 6], there: ['debug', 8], left: 'debug' },
  ] as const;
  for (const { waits, there, left } of cases) {
    const bench = new SessionRecordsBench();
    const store = new LossyStore(bench.clock);
    const view = store.view();
    const [a, b] = [await bench.node('a', store.view()), await bench.node('b', view)];
    a.put(record('s1', { logLevel: 'warning', lastSeenAt: 5 }));
    await settled();
    view.away = true;
    view.hears = false;
    b.put(record('s1', { logLevel: waits[0], lastSeenAt: waits[1] }));
    a.put(record('s1', { initialized: true, logLevel: there[0], lastSeenAt: there[1] }));
    await settled();
    view.away = false;
    view.hears = true;
    await view.tellAgain();
    await bench.pass(1_500);
    const merged = record('s1', { initialized: true, logLevel: left, lastSeenAt: Math.max(waits[1], there[1]) });
    assert.deepEqual([await a.get('s1'), await b.get('s1')], [merged, merged]);
    await bench.close();
  }
});

test('a log level that a client sets back while the first change is being written stays', async () => {
  const bench = new SessionRecordsBench();
  const view = new LossyStore(bench.clock).view();
  const a = await bench.node('a', view);
  a.put(record('s1', { logLevel: 'warning' }));
  await settled();
  const writing = Promise.withResolvers<void>();
  view.writes = writing.promise;
  a.put(record('s1', { logLevel: 'error' }));
  a.put(record('s1', { logLevel: 'warning' }));
  await settled();
  writing.resolve();
  await settled();
  assert.equal((await a.get('s1'))?.logLevel, 'warning');
  await bench.close();
});
