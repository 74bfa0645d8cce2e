import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SseParser } from '../../protocol/sse-parser.ts';
import { commentFrame, eventFrame } from './sse-frame.ts';

const text = (parts: readonly Buffer[]): string => Buffer.concat(parts).toString();

test('frames an event with id, name and data', () => {
  assert.equal(text(eventFrame(null, [Buffer.from('{}')]).parts), 'data: {}\n\n');
  assert.equal(text(eventFrame('7', [Buffer.from('{"a":'), Buffer.from('1}')]).parts), 'id: 7\ndata: {"a":1}\n\n');
  assert.equal(
    text(eventFrame(null, [Buffer.from('/message')], 'endpoint').parts),
    'event: endpoint\ndata: /message\n\n',
  );
  assert.equal(text(eventFrame('1', []).parts), 'id: 1\ndata: \n\n');
});

test('every line break begins a new data line, also a CRLF that two parts share', () => {
  const framed = (...parts: string[]): string =>
    text(
      eventFrame(
        null,
        parts.map((part) => Buffer.from(part)),
      ).parts,
    );
  assert.equal(framed('{\n "a": 1\n}'), 'data: {\ndata:  "a": 1\ndata: }\n\n');
  assert.equal(framed('a\r\nb\rc\nd'), 'data: a\ndata: b\ndata: c\ndata: d\n\n');
  assert.equal(framed('a\r', '\nb'), 'data: a\ndata: b\n\n');
  assert.equal(framed('a\r', '', '\nb'), 'data: a\ndata: b\n\n');
  assert.equal(framed('a\r', 'b'), 'data: a\ndata: b\n\n');
  assert.equal(framed('a\n'), 'data: a\ndata: \n\n');
});

test('line breaks in the text of a comment do not end the comment', () => {
  assert.equal(text(commentFrame('one\ndata: two\r\n\r\n').parts), ': one data: two \n\n');
});

test('large parts are not copied', () => {
  const large = Buffer.alloc(100_000, 'x');
  const { parts, length } = eventFrame('1', [large]);
  assert.ok(parts.some((part) => part.buffer === large.buffer));
  assert.equal(length, Buffer.concat(parts).length);
});

test('a receiver gets the data back, with LF for every kind of line break, wherever it is cut', () => {
  const piece = fc.array(fc.constantFrom('a', '{"b":1}', '\r', '\n', '\r\n', ': ', 'data: ', 'é', ''), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 5 }), fc.boolean(), (pieces, large) => {
      const parts = pieces.map((each) => Buffer.from(each.join('')));
      if (large) parts.push(Buffer.alloc(20_000, 'y'));
      const events: string[] = [];
      const frame = eventFrame('9', parts);
      assert.equal(frame.length, Buffer.concat(frame.parts).length);
      new SseParser(1_000_000, ({ data }) => events.push(data.toString())).push(Buffer.concat(frame.parts));
      const expected = Buffer.concat(parts).toString().replace(/\r\n?/g, '\n');
      assert.deepEqual(events, [expected]);
    }),
    { numRuns: 500 },
  );
});
