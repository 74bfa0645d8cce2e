import assert from 'node:assert/strict';
import { test } from 'node:test';
import { record, SessionRecordsBench } from '../../../test/support/session-records-bench.ts';
import { Logger } from '../../telemetry/logger.ts';

const AT_HAND = 4;

test('fault:F28 a node that reaches no other for a while does not become the opener of a session', async () => {
  const bench = new SessionRecordsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  a.put(record('s1'));
  await bench.pass(500);
  const opener = a.openerOf('s1');
  bench.deaf.add('b');
  b.put(record('s1', { logLevel: 'error' }));
  b.passOn('s1');
  await bench.pass(500);
  assert.deepEqual([a.openerOf('s1'), b.openerOf('s1')], [opener, opener]);
  assert.equal((await a.get('s1'))?.logLevel, 'error');
  bench.deaf.delete('b');
  bench.leave('a');
  b.put(record('s1'));
  await bench.pass(500);
  assert.notEqual(b.openerOf('s1'), opener, 'a node that has left is no longer the opener');
  await bench.close();
});

test('check:C9 a node remembers the opener of a session that it used, also after its record left memory', async () => {
  const bench = new SessionRecordsBench();
  const node = (name: string) => bench.node(name, bench.state, Logger.silent(), AT_HAND);
  const [a, b] = [await node('a'), await node('b')];
  a.put(record('s1'));
  await bench.pass(500);
  assert.equal((await b.get('s1'))?.id, 's1');
  for (let i = 0; i < AT_HAND; i++) a.put(record(`later-${i}`));
  await bench.pass(500);
  assert.ok((await b.all()).every(({ id }) => id !== 's1'));
  assert.equal(b.openerOf('s1'), a.openerOf('s1'));
  assert.notEqual(b.openerOf('s1'), null);
  await bench.close();
});

test('check:C9 a node that writes a session of unknown opener does not become its opener', async () => {
  const bench = new SessionRecordsBench();
  const node = (name: string) => bench.node(name, bench.state, Logger.silent(), AT_HAND);
  const [a, b] = [await node('a'), await node('b')];
  for (let i = 0; i < 10; i++) a.put(record(`s${i}`));
  await bench.pass(500);
  const opener = a.openerOf('s0');
  assert.equal(b.openerOf('s0'), null);
  b.put(record('s0', { logLevel: 'error' }));
  await bench.pass(500);
  assert.deepEqual([a.openerOf('s0'), b.openerOf('s0')], [opener, opener]);
  assert.equal((await a.get('s0'))?.logLevel, 'error');
  await bench.close();
});
