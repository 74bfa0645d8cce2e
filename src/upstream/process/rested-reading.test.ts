import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { RestedReading } from './rested-reading.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('goal:G12 fault:F14 what nobody waits for is read in few pieces, and the writer waits', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const stream = new PassThrough({ highWaterMark: 1000 });
  const pieces: string[] = [];
  new RestedReading(stream, (chunk) => pieces.push(String(chunk)));
  stream.write('first');
  await turn();
  assert.deepEqual(pieces, ['first']);
  for (let line = 0; line < 5; line++) stream.write(`line ${line}\n`);
  await turn();
  assert.deepEqual(pieces, ['first'], 'it rests');
  assert.equal(stream.write('x'.repeat(2000)), false);
  while (pieces.join('').length < 5 + 5 * 7 + 2000) {
    const before = pieces.length;
    t.mock.timers.tick(2);
    await turn();
    assert.ok(pieces.length <= before + 1, 'one piece, and a rest');
  }
  assert.equal(pieces.join(''), `first${[0, 1, 2, 3, 4].map((n) => `line ${n}\n`).join('')}${'x'.repeat(2000)}`);
});

test('fault:F14 the last words are taken at once, and the end is told behind them', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const stream = new PassThrough();
  const pieces: string[] = [];
  const reading = new RestedReading(stream, (chunk) => pieces.push(String(chunk)));
  stream.on('end', () => pieces.push('end'));
  for (const word of ['one', 'two', 'three']) {
    stream.write(word);
    await turn();
  }
  assert.deepEqual(pieces, ['one']);
  reading.flush();
  stream.end('four');
  await turn();
  await turn();
  assert.deepEqual([pieces.at(-1), pieces.slice(0, -1).join(' ')], ['end', 'one twothree four']);
});
