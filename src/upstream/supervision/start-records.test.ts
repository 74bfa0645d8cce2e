import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { StartRecords } from './start-records.ts';

const begun = Promise.resolve();
const clock = new FakeClock();

function markFile(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-marks-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'starts.json');
}

test('fault:F42 two crashes in a row hold a server back, one does not; a finished start resets the count', async (t) => {
  const file = markFile(t);
  await new StartRecords(file, clock).of('a', 'd').begin(begun);
  const second = new StartRecords(file, clock);
  assert.equal(second.of('a', 'd').blockedReason, null);
  const ended = await second.of('a', 'd').begin(begun);
  ended();
  assert.ok(!existsSync(file));
  await second.of('a', 'd').begin(begun);
  assert.equal(new StartRecords(file, clock).of('a', 'd').blockedReason, null, 'first crash after a finished start');
  await new StartRecords(file, clock).of('a', 'd').begin(begun);
  const held = new StartRecords(file, clock);
  assert.match(held.of('a', 'd').blockedReason ?? '', /twice in a row/);
  assert.equal(held.of('a', 'other').blockedReason, null, 'a changed definition is tried');
  held.close();
  const later = new StartRecords(file, clock);
  assert.notEqual(later.of('a', 'd').blockedReason, null, 'until an operator restarts it');
  later.of('a', 'd').release();
  assert.equal(later.of('a', 'd').blockedReason, null);
  assert.ok(!existsSync(file));
});

test('fault:F42 after a crash the servers that were starting start one after the other, so that only the cause is held back', async (t) => {
  const file = markFile(t);
  const first = new StartRecords(file, clock);
  await Promise.all(['a', 'b', 'c'].map((name) => first.of(name, 'd').begin(begun)));
  const second = new StartRecords(file, clock);
  const mayBegin: string[] = [];
  const ends = ['a', 'b', 'c', 'new'].map(async (name) => {
    const ended = await second.of(name, 'd').begin(begun);
    mayBegin.push(name);
    return ended;
  });
  await new Promise(setImmediate);
  assert.deepEqual(mayBegin.sort(), ['a', 'new']);
  (await ends[0]!)();
  await new Promise(setImmediate);
  assert.deepEqual(mayBegin.sort(), ['a', 'b', 'new']);
  const third = new StartRecords(file, clock);
  const held = ['a', 'b', 'c', 'new'].filter((name) => third.of(name, 'd').blockedReason !== null);
  assert.deepEqual(held, ['b']);
});

test('fault:F42 a start that waits for its place when the process ends does not count', async (t) => {
  const file = markFile(t);
  for (let i = 0; i < 3; i++) {
    const marks = new StartRecords(file, clock);
    assert.equal(marks.of('waits', 'd').blockedReason, null);
    await marks.of('waits', 'd').begin(new Promise(() => {}));
    await marks.of('begins', 'd').begin(begun);
  }
  const ended = await new StartRecords(file, clock).of('waits', 'd').begin(new Promise(() => {}));
  ended();
  assert.equal(new StartRecords(file, clock).of('waits', 'd').blockedReason, null);
  assert.notEqual(new StartRecords(file, clock).of('begins', 'd').blockedReason, null);
});

test('an orderly end of the process is no crash, and a foreign file counts as empty', async (t) => {
  const file = markFile(t);
  const marks = new StartRecords(file, clock);
  await marks.of('a', 'd').begin(begun);
  assert.match(readFileSync(file, 'utf8'), /"starting":true/);
  marks.close();
  assert.ok(!existsSync(file));
  for (const text of ['', 'null', '[1]', '{"a":null}', '{"a":{"digest":"d","crashes":1e400,"starting":true}}']) {
    writeFileSync(file, text);
    const read = new StartRecords(file, clock);
    assert.equal(read.of('a', 'd').blockedReason, null, text);
    (await read.of('a', 'd').begin(begun))();
  }
});

test('fault:F42 a start that does not finish is suspect for ten seconds, and then delays no other', async (t) => {
  const file = markFile(t);
  const first = new StartRecords(file, clock);
  await Promise.all(['mute', 'slow'].map((name) => first.of(name, 'd').begin(begun)));
  const second = new StartRecords(file, clock);
  await second.of('mute', 'd').begin(begun);
  let began = false;
  const next = second.of('slow', 'd').begin(begun);
  void next.then(() => (began = true));
  await clock.advance(9_999);
  assert.equal(began, false);
  await clock.advance(1);
  await next;
  const third = new StartRecords(file, clock);
  assert.equal(third.of('mute', 'd').blockedReason, null, 'the process ended later');
  assert.notEqual(third.of('slow', 'd').blockedReason, null);
});
