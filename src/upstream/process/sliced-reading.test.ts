import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { LineSplitter } from './line-splitter.ts';
import { RestedReading, SlicedReading } from './sliced-reading.ts';

/** A stream of lines read in slices; each line takes so long. */
function bench(lineMs: number): {
  readonly stream: PassThrough;
  readonly lines: string[];
  readonly reading: SlicedReading;
} {
  const stream = new PassThrough({ highWaterMark: 1 << 20 });
  const lines: string[] = [];
  let now = 0;
  const splitter = new LineSplitter(1 << 20, {
    line: (bytes) => {
      now += lineMs;
      lines.push(bytes.toString());
    },
    blank: () => {},
    overflow: () => {},
    skipped: () => {},
    overflowEnd: () => {},
  });
  const reading = new SlicedReading(
    stream,
    (chunk, at, full) => splitter.push(chunk, at, full),
    () => now,
  );
  return { stream, lines, reading };
}

const flood = (count: number): string => Array.from({ length: count }, (_, i) => `{"line":${i}}\n`).join('');
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Resolves when ten turns in a row have brought nothing more. */
async function rested(taken: () => number): Promise<void> {
  for (let idle = 0, before = taken(); idle < 10; idle++) {
    await turn();
    if (taken() !== before) idle = 0;
    before = taken();
  }
}

test('goal:G12 fault:F12 a flood of messages in one chunk is read in slices: other work runs between them, and the order stays', async () => {
  const { stream, lines } = bench(0.5);
  stream.write(flood(3_000));
  let most = 0;
  for (let before = 0; lines.length < 3_000; before = lines.length) {
    await turn();
    most = Math.max(most, lines.length - before);
  }
  // Four times 16 lines, of 0.5 ms each, are more than a slice. Two slices may meet in what is one turn here.
  assert.ok(most <= 2 * 4 * 16, `${most} lines in one turn`);
  assert.deepEqual(
    lines,
    flood(3_000)
      .split('\n')
      .filter((line) => line !== ''),
  );
});

test('goal:G12 during a flood at least a millisecond is left for other work between two slices', async () => {
  const { stream, lines } = bench(0.5);
  stream.write(flood(640));
  let restless = 0;
  while (lines.length < 640) {
    const before = { lines: lines.length, at: performance.now() };
    while (lines.length === before.lines) await turn();
    if (before.lines > 0 && performance.now() - before.at < 1) restless++;
  }
  assert.equal(restless, 0, 'slices with less than a millisecond before them');
});

test('goal:G12 between two slices, chunks wait in the stream', async () => {
  const { stream, lines } = bench(5);
  stream.write(flood(2_000));
  await turn();
  assert.ok(stream.isPaused());
  assert.ok(lines.length < 2_000);
  for (let i = 0; i < 10; i++) stream.write(flood(2_000));
  for (let i = 0; i < 5; i++) await turn();
  assert.ok(stream.readableLength > 0);
});

test('fault:F04 messages read before the end of the stream are delivered before the end', async () => {
  const { stream, lines, reading } = bench(5);
  stream.write(flood(2_000));
  await turn();
  stream.write('{"last":true}\n');
  reading.flush();
  assert.equal(lines.length, 2_001);
  assert.equal(lines.at(-1), '{"last":true}');
});

test('fault:F04 the order stays when other code makes the stream flow, as Node does when a process has exited', async () => {
  const { stream, lines } = bench(5);
  stream.write(flood(2_000));
  await turn();
  stream.write(flood(2_000));
  stream.resume();
  while (!(stream.readableLength === 0 && lines.at(-1) === '{"line":1999}' && lines.length > 2_000)) await turn();
  assert.equal(`${lines.join('\n')}\n`, flood(2_000) + flood(2_000));
});

test('fault:F04 messages that wait in a stream that breaks are delivered', async () => {
  const { stream, lines, reading } = bench(5);
  stream.write(flood(2_000));
  await turn();
  stream.write(flood(100));
  const closed = new Promise((resolve) => stream.once('close', resolve));
  stream.once('error', () => {});
  stream.destroy(new Error('reset'));
  await closed;
  reading.flush();
  assert.equal(`${lines.join('\n')}\n`, flood(2_000) + flood(100));
});

test('single messages are delivered as they come', async () => {
  const { stream, lines } = bench(60);
  for (let i = 0; i < 5; i++) {
    stream.write(`${i}\n`);
    await turn();
    assert.equal(lines.length, i + 1);
    assert.ok(!stream.isPaused());
  }
});

test('sliced reading gives the same lines as reading everything at once', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 4_000 }), { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 0, max: 3 }),
      async (counts, lineMs) => {
        const { stream, lines } = bench(lineMs);
        for (const count of counts) stream.write(flood(count));
        const whole = counts.reduce((sum, count) => sum + count, 0);
        while (lines.length < whole) await turn();
        assert.deepEqual(`${lines.join('\n')}\n`, counts.map(flood).join(''));
      },
    ),
    { numRuns: 20 },
  );
});

test('goal:G12 a line of a megabyte is read in slices with other turns in between and no rest; reading a longer one rests', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const stream = new PassThrough({ highWaterMark: 1 << 24 });
  let now = 0;
  let taken = 0;
  new SlicedReading(
    stream,
    (chunk) => {
      now += 0.2;
      taken += chunk.length;
      return chunk.length;
    },
    () => now,
  );
  // As many chunks as are read before the line counts as a flood.
  const chunks = 12;
  for (let i = 0; i < chunks; i++) stream.write(Buffer.alloc(64 * 1024, 'x'));
  let most = 0;
  let turns = 0;
  for (let before = 0; taken < chunks * 64 * 1024; before = taken) {
    await turn();
    turns++;
    most = Math.max(most, taken - before);
  }
  // Five times 0.2 ms are the first chunk beyond a slice that had at least four.
  assert.ok(most <= 2 * 5 * 64 * 1024, `${most} bytes in one turn`);
  assert.ok(turns <= chunks, 'no slice waited for a timer');
  for (let i = 0; i < 100; i++) stream.write(Buffer.alloc(64 * 1024, 'x'));
  let rests = 0;
  for (; taken < (chunks + 100) * 64 * 1024; rests++) {
    await rested(() => taken);
    const before = taken;
    t.mock.timers.tick(3);
    await rested(() => taken);
    assert.equal(taken, before, 'a rest lasts four milliseconds');
    t.mock.timers.tick(1);
  }
  assert.ok(rests > 10, `${rests} rests`);
});

test('goal:G12 fault:F14 output that no reader waits for is read in few pieces, and the writer waits', async (t) => {
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

test('fault:F14 the last output is read at once, and the end follows it', async (t) => {
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
