import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type ParseProblem, ResponseParser } from './response-parser.ts';

interface Seen {
  readonly responses: { status: number; headers: string[]; body: string; ended: boolean; keepAlive: boolean }[];
  problem: ParseProblem | null;
  properEnd: boolean;
}

/** Feeds pieces, then the end of the stream; one response is expected. */
function parse(pieces: readonly Buffer[], headRequest = false): Seen {
  const seen: Seen = { responses: [], problem: null, properEnd: false };
  const parser = new ResponseParser({
    onHead: (head) =>
      seen.responses.push({
        status: head.status,
        headers: [...head.headers.pairs],
        body: '',
        ended: false,
        keepAlive: head.keepAlive,
      }),
    onBody: (bytes, from, to) => {
      seen.responses.at(-1)!.body += bytes.toString('latin1', from, to);
    },
    onEnd: () => {
      seen.responses.at(-1)!.ended = true;
    },
  });
  parser.expect(headRequest);
  for (const piece of pieces) {
    if (seen.problem !== null) break;
    // As on the wire: the bytes lie in a larger buffer with old bytes behind them.
    const buffer = Buffer.concat([piece, Buffer.from('\r\n\r\nHTTP/1.1 200 OK\r\n\r\n')]);
    seen.problem = parser.push(buffer, piece.length);
    buffer.fill(0x58);
  }
  if (seen.problem === null) seen.properEnd = parser.eof();
  return seen;
}

const text = (value: string): Buffer => Buffer.from(value, 'latin1');

function cut(bytes: Buffer, at: readonly number[]): Buffer[] {
  const points = [...new Set(at.map((each) => each % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...points].map((start, i) => bytes.subarray(start, points[i] ?? bytes.length));
}

const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,12}$/).map((each) => `X-${each}`);
const value = fc.stringMatching(/^[!-~]([ -~]{0,20}[!-~])?$/);
const body = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString('latin1'));
const cuts = fc.array(fc.nat(100_000), { maxLength: 12 });

/** A response as a model, and the bytes a server could send for it. */
const response = fc
  .record({
    status: fc.constantFrom(200, 201, 202, 400, 404, 500, 599),
    headers: fc.array(fc.tuple(name, value), { maxLength: 6 }),
    body,
    framing: fc.constantFrom('length', 'chunked', 'close'),
    chunkSizes: fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 }),
    extension: fc.constantFrom('', ';a=b', ' ; q="x"'),
    trailer: fc.constantFrom('', 'X-T: 1\r\n', 'A: b\r\nC: d\r\n'),
    interim: fc.constantFrom('', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n'),
  })
  .map((model) => {
    const lines = model.headers.map(([key, content]) => `${key}: ${content}\r\n`).join('');
    let framed = model.body;
    let frame = '';
    if (model.framing === 'length') frame = `Content-Length: ${model.body.length}\r\n`;
    if (model.framing === 'chunked') {
      frame = 'Transfer-Encoding: chunked\r\n';
      framed = '';
      for (let at = 0, i = 0; at < model.body.length; i++) {
        const size = model.chunkSizes[i % model.chunkSizes.length]!;
        const piece = model.body.slice(at, at + size);
        framed += `${piece.length.toString(16)}${model.extension}\r\n${piece}\r\n`;
        at += size;
      }
      framed += `0\r\n${model.trailer}\r\n`;
    }
    return { model, bytes: text(`${model.interim}HTTP/1.1 ${model.status} Fine\r\n${frame}${lines}\r\n${framed}`) };
  });

describe('response parser', () => {
  test('reads every response the same wherever it is cut', () => {
    fc.assert(
      fc.property(response, cuts, ({ model, bytes }, at) => {
        const seen = parse(cut(bytes, at));
        assert.equal(seen.problem, null);
        assert.equal(seen.properEnd, true);
        assert.equal(seen.responses.length, 1);
        const [only] = seen.responses;
        assert.equal(only!.status, model.status);
        assert.equal(only!.body, model.body);
        assert.equal(only!.ended, true);
        assert.equal(only!.keepAlive, model.framing !== 'close');
        for (const [key, content] of model.headers) {
          const at = only!.headers.findIndex((each, i) => i % 2 === 0 && each === key.toLowerCase());
          assert.ok(at >= 0);
          assert.ok(model.headers.some(([, each]) => each === only!.headers[at + 1]) || content === '');
        }
      }),
      { numRuns: 1500 },
    );
  });

  test('gives the same result for mutated bytes in one piece, in pieces and byte by byte, and agrees with a simple reader', () => {
    const mutation = fc.record({
      at: fc.nat(100_000),
      kind: fc.constantFrom('flip', 'insert', 'remove', 'repeat'),
      byte: fc.constantFrom(0, 9, 10, 13, 32, 48, 57, 58, 65, 102, 127, 128, 255),
    });
    fc.assert(
      fc.property(response, fc.array(mutation, { minLength: 1, maxLength: 4 }), cuts, ({ bytes }, mutations, at) => {
        const mutated = mutate(bytes, mutations);
        const whole = parse([mutated]);
        assert.deepEqual(parse(cut(mutated, at)), whole);
        const single = [...mutated].map((_, i) => mutated.subarray(i, i + 1));
        assert.deepEqual(parse(single), whole);
        const expected = plainReading(mutated.toString('latin1'));
        const complete = whole.problem === null && whole.properEnd && whole.responses[0]?.ended === true;
        assert.equal(complete, expected !== null, `problem: ${whole.problem?.message}`);
        if (expected !== null) {
          assert.equal(whole.responses[0]!.status, expected.status);
          assert.equal(whole.responses[0]!.body, expected.body);
        }
      }),
      { numRuns: 1500 },
    );
  });

  test('a length of zero ends the response, with any number of zeros', () => {
    for (const zeros of ['0', '00', '000000000000000']) {
      const seen = parse([text(`HTTP/1.1 200 OK\r\nContent-Length: ${zeros}\r\n\r\n`)]);
      assert.deepEqual([seen.responses[0]?.ended, seen.properEnd, seen.problem], [true, true, null]);
    }
  });

  test('accepts random bytes without harm', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), cuts, (bytes, at) => {
        const seen = parse(cut(Buffer.from(bytes), at));
        assert.ok(seen.problem !== null || !seen.properEnd || bytes.length === 0 || seen.responses.length > 0);
      }),
      { numRuns: 500 },
    );
  });

  const refused: [string, string][] = [
    ['a second Content-Length, even the same', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab'],
    ['a list of lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab'],
    ['a negative length', 'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n'],
    ['a length with a sign', 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab'],
    ['an empty length', 'HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n'],
    [
      'length and coding together',
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['another coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['two codings', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a coding in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a folded header', 'HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n'],
    ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n'],
    ['a header without a name', 'HTTP/1.1 200 OK\r\n: x\r\n\r\n'],
    ['a header without a colon', 'HTTP/1.1 200 OK\r\nX-A\r\n\r\n'],
    ['NUL in a value', 'HTTP/1.1 200 OK\r\nX-A: a\0b\r\n\r\n'],
    ['a bare CR in a value', 'HTTP/1.1 200 OK\r\nX-A: a\rb\r\n\r\n'],
    ['a bare LF line', 'HTTP/1.1 200 OK\r\nX-A: a\nX-B: b\r\n\r\n'],
    ['HTTP/2 in the status line', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['a status out of range', 'HTTP/1.1 999 No\r\n\r\n'],
    ['101 without an upgrade request', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
    ['endless interim responses', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(9)],
    ['bytes after the response', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabHTTP/1.1'],
    ['a body after 204', 'HTTP/1.1 204 No Content\r\n\r\nboo'],
    ['a chunk size that is no number', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n'],
    ['a missing chunk size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n'],
    ['a negative chunk size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n'],
    ['a chunk size beyond all bounds', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n'],
    ['a chunk longer than its size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n'],
    ['a bare LF after a chunk size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n'],
    [
      'a chunk extension of 200 KB',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;${'a'.repeat(200_000)}\r\na\r\n0\r\n\r\n`,
    ],
    [
      'trailers without end',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${'X-T: aaaaaaaaaaaaaaaa\r\n'.repeat(2_000)}\r\n`,
    ],
    ['201 headers', `HTTP/1.1 200 OK\r\n${'X-A: b\r\n'.repeat(201)}\r\n`],
  ];
  for (const [what, bytes] of refused) {
    test(`refuses ${what}`, () => {
      const seen = parse([text(bytes)]);
      assert.equal(seen.problem?.kind, 'protocol');
      assert.deepEqual(parse([...text(bytes)].map((byte) => Buffer.from([byte]))).problem, seen.problem);
    });
  }

  test('refuses a head above 64 KiB and takes one just below', () => {
    const head = (filler: number): Buffer =>
      text(`HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: ${'a'.repeat(filler)}\r\n\r\n`);
    const fixed = head(0).length;
    assert.equal(parse([head(65_536 - fixed)]).responses[0]?.status, 200);
    assert.equal(parse(cut(head(65_536 - fixed), [1, 70, 40_000, 65_530])).responses[0]?.status, 200);
    assert.equal(parse([head(65_537 - fixed)]).problem?.kind, 'head_too_large');
    assert.equal(parse(cut(head(65_537 - fixed), [1, 70, 40_000, 65_530])).problem?.kind, 'head_too_large');
    assert.equal(
      parse(Array.from({ length: 20 }, () => text('HTTP/1.1 '.padEnd(5_000, 'a')))).problem?.kind,
      'head_too_large',
    );
  });

  test('expects no body for 204, 304 and HEAD', () => {
    assert.equal(parse([text('HTTP/1.1 204 No Content\r\n\r\n')]).responses[0]?.ended, true);
    assert.equal(parse([text('HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n')]).responses[0]?.ended, true);
    assert.equal(parse([text('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n')], true).responses[0]?.ended, true);
  });

  test('an end before the whole response is an error', () => {
    const bytes = text('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde');
    for (let length = 0; length < bytes.length; length++) {
      assert.equal(parse([bytes.subarray(0, length)]).properEnd, false, `after ${length} bytes`);
    }
    assert.equal(parse([bytes]).properEnd, true);
  });
});

function mutate(bytes: Buffer, mutations: readonly { at: number; kind: string; byte: number }[]): Buffer {
  let result = bytes;
  for (const { at, kind, byte } of mutations) {
    const i = at % Math.max(1, result.length);
    const before = result.subarray(0, i);
    const after = result.subarray(i);
    if (kind === 'flip') result = Buffer.concat([before, Buffer.from([byte]), after.subarray(1)]);
    else if (kind === 'insert') result = Buffer.concat([before, Buffer.from([byte]), after]);
    else if (kind === 'remove') result = Buffer.concat([before, after.subarray(1)]);
    else result = Buffer.concat([before, after.subarray(0, 5), after]);
  }
  return result;
}

/** The same rules, written another way: whole text, regular expressions. Null unless exactly one whole response. */
function plainReading(all: string): { status: number; body: string } | null {
  for (let interim = 0; ; interim++) {
    const end = all.indexOf('\r\n\r\n');
    if (end < 0 || interim > 8) return null;
    const [first, ...lines] = all.slice(0, end).split('\r\n');
    const rest = all.slice(end + 4);
    const status = /^HTTP\/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?$/.exec(first!);
    if (status === null) return null;
    const headers = lines.map((line) => /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)$/.exec(line));
    if (headers.some((header) => header === null)) return null;
    const all1 = (wanted: string): string[] =>
      headers.filter((h) => h![1]!.toLowerCase() === wanted).map((h) => h![2]!.replace(/^[ \t]+|[ \t]+$/g, ''));
    const lengths = all1('content-length');
    const codings = all1('transfer-encoding');
    if (lengths.length > 1 || codings.length > 1 || (lengths.length > 0 && codings.length > 0)) return null;
    if (codings.length > 0 && (status[1] === '0' || codings[0]!.toLowerCase() !== 'chunked')) return null;
    if (lengths.length > 0 && !/^\d{1,15}$/.test(lengths[0]!)) return null;
    const code = Number(status[2]);
    if (code === 101) return null;
    if (code < 200) {
      all = rest;
      continue;
    }
    if (code === 204 || code === 304) return rest === '' ? { status: code, body: '' } : null;
    if (codings.length > 0) {
      const body = dechunk(rest);
      return body === null ? null : { status: code, body };
    }
    if (lengths.length === 0) return { status: code, body: rest };
    return rest.length === Number(lengths[0]) ? { status: code, body: rest } : null;
  }
}

function dechunk(rest: string): string | null {
  let body = '';
  for (;;) {
    const line = /^([0-9A-Fa-f]{1,12})(?:[; \t][\t\x20-\x7e\x80-\xff]*)?\r\n/.exec(rest);
    if (line === null) return null;
    rest = rest.slice(line[0].length);
    const size = Number.parseInt(line[1]!, 16);
    if (size === 0) return /^(?:[\t\x20-\x7e\x80-\xff]+\r\n)*\r\n$/.test(rest) ? body : null;
    if (rest.length < size + 2 || rest.slice(size, size + 2) !== '\r\n') return null;
    body += rest.slice(0, size);
    rest = rest.slice(size + 2);
  }
}

describe('a head that is repeated', () => {
  const sized = text('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n');

  /** Pushes responses one after another through one parser; returns a summary of each. */
  function inTurn(turns: readonly { readonly headRequest: boolean; readonly bytes: Buffer }[]): string[] {
    const reported: string[] = [];
    let current = '';
    const parser = new ResponseParser({
      onHead: (head) => {
        current = `${head.status} ${head.framing.kind} `;
      },
      onBody: (bytes, from, to) => {
        current += bytes.toString('latin1', from, to);
      },
      onEnd: () => reported.push(current),
    });
    for (const { headRequest, bytes } of turns) {
      parser.expect(headRequest);
      assert.equal(parser.push(bytes, bytes.length), null);
    }
    return reported;
  }

  test('frames every body anew', () => {
    const bytes = Buffer.concat([sized, text('ab')]);
    const turns = ['ab', 'cd', 'ef'].map((body) => ({
      headRequest: false,
      bytes: Buffer.concat([sized, text(body)]),
    }));
    assert.deepEqual(inTurn(turns), ['200 length ab', '200 length cd', '200 length ef']);
    assert.deepEqual(
      inTurn([
        { headRequest: true, bytes: sized },
        { headRequest: false, bytes },
      ]),
      ['200 none ', '200 length ab'],
    );
  });

  test('is parsed anew when one byte of it differs', () => {
    const other = text('HTTP/1.1 201 OK\r\nContent-Length: 2\r\n\r\n');
    const turns = [sized, other, sized].map((head) => ({
      headRequest: false,
      bytes: Buffer.concat([head, text('ab')]),
    }));
    assert.deepEqual(inTurn(turns), ['200 length ab', '201 length ab', '200 length ab']);
  });
});
