import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WaitingSessions } from './client-connections.ts';

function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

test('check:C4 connections of a session that ended meanwhile are released once, after the last of its waiting work', async () => {
  const sessions = new WaitingSessions();
  const released: string[] = [];
  const release = (id: string) => released.push(id);
  const first = deferred();
  const second = deferred();
  const work = [
    sessions.during('a', () => first.promise, release),
    sessions.during('a', () => second.promise, release),
  ];
  const other = sessions.during('b', () => second.promise, release);
  sessions.ended('a');
  first.resolve();
  await work[0];
  assert.deepEqual(released, [], 'other work of the session may still open something');
  second.resolve();
  await Promise.all([work[1], other]);
  assert.deepEqual(released, ['a'], 'an open session keeps its connections');
});

test('a session that ends while its work fails is released too; an end without waiting work is not kept', async () => {
  const sessions = new WaitingSessions();
  const released: string[] = [];
  const failing = deferred();
  const work = sessions.during(
    'a',
    () => failing.promise.then(() => Promise.reject(new Error('x'))),
    (id) => released.push(id),
  );
  sessions.ended('a');
  failing.resolve();
  await assert.rejects(work, /x/);
  assert.deepEqual(released, ['a']);
  sessions.ended('a');
  await sessions.during(
    'a',
    () => Promise.resolve(),
    (id) => released.push(id),
  );
  assert.deepEqual(released, ['a']);
});
