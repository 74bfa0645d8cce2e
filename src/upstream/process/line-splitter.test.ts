import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LineSplitter } from './line-splitter.ts';

interface Found {
  readonly lines: string[];
  readonly overflows: { head: string; tail: string | null }[];
  blanks: number;
  skipped: number;
}

function split(chunks: readonly Buffer[], maxLineBytes: number): Found {
  const found: Found = { lines: [], overflows: [], blanks: 0, skipped: 0 };
  const splitter = new LineSplitter(maxLineBytes, {
    line: (bytes) => found.lines.push(bytes.toString('latin1')),
    blank: () => found.blanks++,
    overflow: (head) => found.overflows.push({ head: head.toString('latin1'), tail: null }),
    skipped: (count) => {
      found.skipped += count;
    },
    overflowEnd: (_head, tail) => {
      found.overflows.at(-1)!.tail = tail.toString('latin1');
    },
  });
  for (const chunk of chunks) splitter.push(chunk);
  return found;
}

const piece = fc.constantFrom('a', 'é', '\n', '\r\n', '\r', '{"x":1}', 'b'.repeat(40), 'c'.repeat(20_000), '');

test('the lines are the same wherever the bytes are cut', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), fc.array(fc.nat(60_000), { maxLength: 12 }), (pieces, cuts) => {
      const whole = Buffer.from(pieces.join(''));
      const places = [...new Set(cuts.map((cut) => (whole.length === 0 ? 0 : cut % whole.length)))].sort(
        (a, b) => a - b,
      );
      const chunks = [0, ...places].map((from, i) => whole.subarray(from, places[i] ?? whole.length));
      const parts = whole.toString('latin1').split('\n').slice(0, -1);
      const expected = parts
        .map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line))
        .filter((line) => line !== '');
      const found = split(chunks, 1024 * 1024);
      assert.deepEqual(found.lines, expected);
      assert.equal(found.blanks, parts.length - expected.length);
    }),
    { numRuns: 300 },
  );
});

test('a line at the limit passes; one byte more is dropped up to its newline, and later lines are read', () => {
  for (const chunkBytes of [1, 7, 100, 5000, 100_000]) {
    const text = `${'a'.repeat(3000)}\n${'b'.repeat(3001)}\n${'c'.repeat(9000)}END\nnext\n`;
    const whole = Buffer.from(text);
    const chunks = Array.from({ length: Math.ceil(whole.length / chunkBytes) }, (_, i) =>
      whole.subarray(i * chunkBytes, (i + 1) * chunkBytes),
    );
    const found = split(chunks, 3000);
    assert.deepEqual(found.lines, ['a'.repeat(3000), 'next']);
    assert.deepEqual(found.overflows, [
      { head: 'b'.repeat(1024), tail: 'b'.repeat(1024) },
      { head: 'c'.repeat(1024), tail: `${'c'.repeat(1021)}END` },
    ]);
    assert.equal(found.skipped, 3001 + 9003);
  }
});

test('the limit is for the line without its line break, wherever the bytes are cut', () => {
  const kept: string[] = [];
  let overflows = 0;
  const nothing = (): void => {};
  const sink = {
    line: (bytes: Buffer) => kept.push(String(bytes)),
    blank: nothing,
    skipped: nothing,
    overflowEnd: nothing,
  };
  for (const [text, fits] of [
    ['0123456789\r\n', true],
    ['0123456789\n', true],
    ['012345678\r\r\n', true],
    ['0123456789x\r\n', false],
    ['0123456789\rx\n', false],
  ] as const) {
    for (let cut = 0; cut < text.length; cut++) {
      kept.length = 0;
      overflows = 0;
      const splitter = new LineSplitter(10, { ...sink, overflow: () => overflows++ });
      splitter.push(Buffer.from(text.slice(0, cut)));
      splitter.push(Buffer.from(`${text.slice(cut)}next\n`));
      const line = text.replace(/\r?\n$/, '');
      assert.deepEqual(kept, fits ? [line, 'next'] : ['next'], `${JSON.stringify(text)} cut at ${cut}`);
      assert.equal(overflows, fits ? 0 : 1);
    }
  }
});

test('after stop no line is delivered, not even of the current chunk', () => {
  const lines: string[] = [];
  const splitter: LineSplitter = new LineSplitter(100, {
    line: (bytes) => {
      lines.push(bytes.toString());
      splitter.stop();
    },
    blank: () => {},
    overflow: () => {},
    skipped: () => {},
    overflowEnd: () => {},
  });
  splitter.push(Buffer.from('one\ntwo\nthr'));
  splitter.push(Buffer.from('ee\n'));
  assert.deepEqual(lines, ['one']);
});

test('a delivered line does not change when the stream goes on, and does not keep a large chunk alive', () => {
  const kept: Buffer[] = [];
  const splitter = keeping(kept);
  const chunk = Buffer.alloc(64 * 1024, 'x');
  chunk.write('short\n');
  splitter.push(chunk);
  splitter.push(Buffer.from('y'.repeat(10)));
  splitter.push(Buffer.from('\n'));
  chunk.fill('z', 0, 6);
  assert.equal(kept[0]!.toString(), 'short');
  assert.notEqual(kept[0]!.buffer, chunk.buffer);
  assert.equal(kept[1]!.length, 64 * 1024 - 6 + 10);
});

test('short lines do not keep a large chunk alive; a kept line that is most of a chunk keeps it whole', () => {
  const kept: Buffer[] = [];
  const splitter = keeping(kept);
  const chunkOf = (text: string): Buffer => {
    const chunk = Buffer.from(new ArrayBuffer(text.length));
    chunk.write(text);
    return chunk;
  };
  const short = chunkOf('short line\n'.repeat(2_000).concat('and a beginning'));
  splitter.push(short);
  assert.equal(short.length, 0);
  const long = chunkOf(` of the next\n${'x'.repeat(20_000)}\n`);
  splitter.push(long);
  assert.ok(long.length > 20_000);
  assert.deepEqual([...new Set(kept.map(String))], ['short line', 'and a beginning of the next', 'x'.repeat(20_000)]);
  const tail = chunkOf(`a\n${'y'.repeat(20_000)}`);
  splitter.push(tail);
  splitter.push(Buffer.from('\n'));
  assert.equal(kept.at(-1)!.toString(), 'y'.repeat(20_000));
});

function keeping(kept: Buffer[]): LineSplitter {
  const nothing = (): void => {};
  const rest = { blank: nothing, overflow: nothing, skipped: nothing, overflowEnd: nothing };
  return new LineSplitter(100_000, { line: (bytes) => kept.push(bytes), ...rest });
}
