import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type SseEvent, SseParser } from './sse-parser.ts';

interface Parsed {
  readonly events: readonly { id: string | null; event: string | null; data: string; retryMs: number | null }[];
  readonly dropped: number;
}

function parse(chunks: readonly (string | Buffer)[], maxEventBytes = 1 << 20): Parsed {
  const events: Parsed['events'][number][] = [];
  let dropped = 0;
  const onEvent = (event: SseEvent) => events.push({ ...event, data: event.data.toString() });
  const parser = new SseParser(maxEventBytes, onEvent);
  for (const chunk of chunks) {
    if (!parser.push(Buffer.from(chunk as string))) dropped++;
  }
  return { events, dropped };
}

const datas = (parsed: Parsed): string[] => parsed.events.map((event) => event.data);

test('fields, comments and several lines of data', () => {
  const parsed = parse([
    ': hello\n\nid: 7\nevent: message\ndata: {"a":\ndata:1}\nretry: 250\nunknown: x\nnonsense-without-colon\n\n:\n\ndata\n\n',
  ]);
  assert.deepEqual(parsed.events, [
    { id: '7', event: 'message', data: '{"a":\n1}', retryMs: 250 },
    { id: null, event: null, data: '', retryMs: null },
  ]);
});

test('an event that has only an id is delivered: resumption begins there', () => {
  assert.deepEqual(parse(['id: e1\ndata:\n\n']).events, [{ id: 'e1', event: null, data: '', retryMs: null }]);
  assert.deepEqual(parse(['id\n\n']).events, [{ id: '', event: null, data: '', retryMs: null }]);
});

test('LF, CR and CRLF end lines, wherever the chunks are cut', () => {
  const stream = (nl: string) =>
    `data: one${nl}${nl}:c${nl}id:2${nl}data: t${nl}data: w\u00f6${nl}${nl}data:${nl}${nl}`;
  for (const nl of ['\n', '\r', '\r\n']) {
    const whole = Buffer.from(stream(nl));
    const expected = parse([whole]).events;
    assert.deepEqual(
      expected.map((event) => event.data),
      ['one', 't\nwö', ''],
    );
    for (let cut = 0; cut <= whole.length; cut++) {
      assert.deepEqual(
        parse([whole.subarray(0, cut), whole.subarray(cut)]).events,
        expected,
        `${JSON.stringify(nl)} ${cut}`,
      );
    }
    assert.deepEqual(parse(Array.from(whole, (byte) => Buffer.from([byte]))).events, expected);
  }
});

test('unusual but valid: a byte order mark, ids with NUL, retries that are no number, values without space', () => {
  assert.deepEqual(datas(parse(['\ufeffdata:x\n\n'])), ['x']);
  assert.deepEqual(parse(['id:a\0b\nretry:1e3\nretry:-5\ndata:  two spaces\n\n']).events, [
    { id: null, event: null, data: ' two spaces', retryMs: null },
  ]);
  assert.deepEqual(datas(parse(['data: cut off'])), []);
  assert.deepEqual(datas(parse(['data: cut off\n'])), []);
});

test('an event over the limit is dropped, and the next one is not', () => {
  const big = 'x'.repeat(3000);
  assert.deepEqual(datas(parse([`data: ${big}\n\ndata: next\n\n`], 1000)), ['next']);
  const pieces = parse([`data: ${big.slice(0, 900)}`, big, big, `\r\ndata: more\r\n\r\ndata: next\n\n`], 1000);
  assert.deepEqual([datas(pieces), pieces.dropped], [['next'], 1]);
  const lines = parse([`${'data: 123456\n'.repeat(200)}\n`, 'data: next\n\n'], 1000);
  assert.deepEqual([datas(lines), lines.dropped], [['next'], 1]);
  assert.deepEqual(datas(parse([`:${big}\n\ndata: next\n\n`], 1000)), ['next']);
});

test('a large event in many chunks costs linear work', () => {
  const chunk = Buffer.alloc(1024, 0x61);
  let length = 0;
  const parser = new SseParser(1 << 26, (event) => {
    length = event.data.length;
  });
  parser.push(Buffer.from('data: '));
  for (let i = 0; i < 20_000; i++) parser.push(chunk);
  parser.push(Buffer.from('\n\n'));
  assert.equal(length, 20_000 * 1024);
});

test('fault:F09 an event that comes byte by byte, or in many lines, costs bytes, not objects', () => {
  const lengths: number[] = [];
  const parser = new SseParser(1 << 26, (event) => lengths.push(event.data.length));
  const text = Buffer.alloc(64 * 1024, 0x61);
  const lines = Buffer.from('data\n'.repeat(10_000));
  const before = process.memoryUsage().heapUsed;
  parser.push(Buffer.from('data: '));
  for (let round = 0; round < 32; round++) {
    for (let i = 0; i < text.length; i++) parser.push(text.subarray(i, i + 1));
  }
  parser.push(Buffer.from('\n'));
  for (let round = 0; round < 100; round++) parser.push(lines);
  const grown = process.memoryUsage().heapUsed - before;
  parser.push(Buffer.from('\n'));
  assert.deepEqual(lengths, [32 * text.length + 1_000_000]);
  // As objects they would be several hundred MiB.
  assert.ok(grown < 128 * 1024 * 1024, `${grown >> 20} MiB`);
});

test('the events are the same wherever a stream is cut, and noise never breaks it', () => {
  const alphabet = fc.constantFrom(
    '\n',
    '\r',
    '\r\n',
    'data:',
    'data: x',
    'id: 1',
    ':',
    'retry:5',
    'event:e',
    'x',
    ' ',
    '\n\n',
  );
  fc.assert(
    fc.property(fc.array(alphabet, { maxLength: 40 }), fc.array(fc.nat(200), { maxLength: 6 }), (tokens, cuts) => {
      const whole = Buffer.from(tokens.join(''));
      const points = [0, ...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b), whole.length];
      const chunks = points.slice(1).map((point, i) => whole.subarray(points[i], point));
      assert.deepEqual(parse(chunks).events, parse([whole]).events);
    }),
  );
});
