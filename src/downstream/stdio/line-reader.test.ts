import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineReader } from './line-reader.ts';

function reader(maxBytes = 100) {
  const lines: string[] = [];
  let tooLong = 0;
  const lineReader = new LineReader(
    maxBytes,
    (line) => lines.push(line.toString()),
    () => tooLong++,
  );
  return { lineReader, lines, tooLong: () => tooLong };
}

test('lines are the same wherever the bytes are cut', () => {
  const text = Buffer.from('{"a":"é"}\r\n\n  \t\n{"b":1}\n"😀"\nlast');
  for (let size = 1; size <= text.length; size++) {
    const { lineReader, lines } = reader();
    for (let at = 0; at < text.length; at += size) lineReader.push(text.subarray(at, at + size));
    lineReader.end();
    assert.deepEqual(lines, ['{"a":"é"}', '{"b":1}', '"😀"', 'last'], `pieces of ${size}`);
  }
});

test('a line that is too long is dropped up to its end and reported once, and the next one is read', () => {
  const { lineReader, lines, tooLong } = reader(10);
  for (let i = 0; i < 50; i++) lineReader.push(Buffer.from('xxxx'));
  lineReader.push(Buffer.from('x\nok\n'));
  lineReader.push(Buffer.from(`${'y'.repeat(11)}\n${'z'.repeat(10)}\n`));
  assert.deepEqual(lines, ['ok', 'zzzzzzzzzz']);
  assert.equal(tooLong(), 2);
});
