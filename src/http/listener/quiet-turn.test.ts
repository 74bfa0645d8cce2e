import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { atQuietTurn } from './quiet-turn.ts';

/** Keeps the event loop busy for `ms` in each of its next `turns` turns. */
async function busy(ms: number, turns: number): Promise<void> {
  for (let i = 0; i < turns; i++) {
    await turn();
    const end = performance.now() + ms;
    while (performance.now() < end);
  }
}

test('fault:F33 a turn after work is not quiet: data that came meanwhile has not been read', async (t) => {
  let heard = '';
  const server = createServer((socket) => socket.on('data', (bytes) => (heard += bytes)).on('error', () => {}));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const socket = connect((server.address() as { port: number }).port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.write('first');
  while (heard !== 'first') await delay(5);
  const working = busy(3, 30).then(() => void socket.write(' second'));
  let worked = false;
  void working.then(() => (worked = true));
  await atQuietTurn(() => 0);
  assert.deepEqual([worked, heard], [true, 'first second']);
});

test('the wait for a quiet turn ends after some hundred turns of a busy loop', async () => {
  let over = false;
  const working = (async () => {
    while (!over) await busy(0.3, 1);
  })();
  await atQuietTurn(() => 0);
  const since = performance.now();
  await atQuietTurn(() => 0, 20);
  assert.ok(performance.now() - since < 100, 'the wait is not longer than the limit of its caller');
  over = true;
  await working;
});
