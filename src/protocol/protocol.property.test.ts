/**
 * Properties of the byte level, against `JSON.parse` as the oracle. Documents are generated as text, with the spaces,
 * escapes and number lexemes that a re-serialised value would lose.
 */
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Message } from '../model/message.ts';
import { canonical } from './canonical.ts';
import { duplicateKey, entries, field, text } from './fields.ts';
import { isScanFailure, type ScanMode, scanBatch, scanMessage } from './scan.ts';
import { editMembers, oneLine, splice, withId } from './splice.ts';

const space = fc.constantFrom('', '', '', ' ', '\n', '\r\n', '\t', '  ');
const number = fc.oneof(
  fc.constantFrom('0', '-0', '1.0', '1E400', '-1e-400', '12345678901234567890', '0.10', '1e+2'),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
);
const piece = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 8 }).map((plain) => JSON.stringify(plain).slice(1, -1)),
  fc.constantFrom(
    '\\u0000',
    '\\ud800',
    '\\/',
    '\\u00e9',
    '\\\\',
    '\\"',
    '}',
    ']',
    '{',
    '\\\\\\"',
    '\u2028',
    'x'.repeat(60),
  ),
);
const string = fc.array(piece, { maxLength: 4 }).map((pieces) => `"${pieces.join('')}"`);
// The oracle errs here: once V8 (Node 24.21) has seen an object whose key is one backslash, JSON.parse takes any escaped
// key after it for that one.
const key = string.filter((lexeme) => lexeme !== '"\\\\"');
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false', '{}', '[ ]'),
    number,
    string,
    fc
      .array(fc.tuple(space, tie('value'), space), { maxLength: 4 })
      .map((all) => `[${all.map((one) => one.join('')).join(',')}]`),
    fc
      .array(fc.tuple(space, key, space, space, tie('value'), space), { maxLength: 4 })
      .map((all) => `{${all.map(([a, k, b, c, v, d]) => `${a}${k}${b}:${c}${v}${d}`).join(',')}}`),
  ),
}));
const object = fc
  .uniqueArray(fc.tuple(fc.constantFrom('"a"', '"b"', '"_meta"', '"é"', '"x\\u0079"', '"long name"'), value), {
    maxLength: 5,
    selector: ([key]) => key,
  })
  .map((all) => `{${all.map(([key, json]) => `${key}:${json}`).join(',')}}`);

const id = fc.oneof(fc.constantFrom('0', '-0', '7', '1.0', '9007199254740993'), string);
const method = fc.constantFrom('"prompts/get"', '"tools\\/list"', '"\\u0061"', '"m"');
const notice = fc.constantFrom('"notifications\\/progress"', '"\\u0061"', '"m"');
/** The members of each kind of message, in any order, between any spaces, with unknown ones. */
const message = fc
  .tuple(
    fc.oneof(
      fc.tuple(id, method, object).map(([i, m, p]) => [`"id":${i}`, `"method":${m}`, `"params" : ${p}`]),
      fc.tuple(notice, object).map(([m, p]) => [`"method":${m}`, `"params":${p}`]),
      fc.tuple(id, value).map(([i, r]) => [`"id":${i}`, `"result":${r}`]),
      fc.tuple(id, object).map(([i, e]) => [`"i\\u0064":${i}`, `"error":${e}`]),
    ),
    fc.tuple(value, value),
    fc.array(fc.nat(), { minLength: 5, maxLength: 5 }),
    space,
  )
  .map(([members, [u, v], order, gap]) => {
    const all = ['"jsonrpc":"2.0"', `"unknown":${u}`, `"idle":${v}`, ...members];
    const shuffled = all
      .map((member, i) => [order[i % 5]! * (i + 1) * 7919, member] as const)
      .sort((a, b) => (a[0] % 97) - (b[0] % 97));
    return `${gap}{${gap}${shuffled.map(([, member]) => member).join(`${gap},${gap}`)}${gap}}${gap}`;
  });

function scanned(json: string, mode: ScanMode): Message {
  const result = scanMessage(Buffer.from(json), 'stateful', mode);
  assert.ok(!isScanFailure(result), isScanFailure(result) ? `${result.reason}: ${json}` : '');
  return result;
}

/** The document without white space between tokens: two texts of equal lexemes are equal. */
function lexemes(json: string): string {
  return (json.match(/"(?:[^"\\]|\\.)*"|[^\s"]+/gs) ?? []).join('');
}

const isObject = (of: unknown) => typeof of === 'object' && of !== null && !Array.isArray(of);

/** Bytes near a valid message: some overwritten, inserted, or cut out. */
const mutated = fc
  .tuple(
    message,
    fc.array(
      fc.tuple(
        fc.nat(),
        fc.constantFrom('set', 'insert', 'cut'),
        fc.oneof(fc.constantFrom(...Buffer.from('{}[]",:\\u0e\n\r -.1')), fc.nat(255)),
      ),
      {
        minLength: 1,
        maxLength: 4,
      },
    ),
  )
  .map(([json, changes]) => {
    let bytes = Buffer.from(json);
    for (const [where, how, byte] of changes) {
      const at = where % (bytes.length + 1);
      const keep = how === 'insert' ? at : at + (how === 'cut' ? 1 + (byte % 5) : 1);
      const insert = how === 'cut' ? [] : [byte];
      bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from(insert), bytes.subarray(keep)]);
    }
    return bytes;
  });

test('check:B9 check:B12 the envelope is found in any order and spelling, with the same result in both modes', () => {
  fc.assert(
    fc.property(message, (json) => {
      const strict = scanMessage(Buffer.from(json), 'stateful', 'strict');
      const relaxed = scanned(json, 'relaxed');
      // Repeated parameters are refused only in messages of clients.
      if (isScanFailure(strict)) assert.match(strict.reason, /twice/);
      else assert.deepEqual({ ...strict }, { ...relaxed });
      const parsed = JSON.parse(json);
      assert.deepEqual(
        relaxed.id === '' ? undefined : JSON.parse(Buffer.from(relaxed.id, 'latin1').toString()),
        parsed.id,
      );
      assert.equal(relaxed.method, parsed.method ?? '');
      assert.deepEqual(
        JSON.parse(relaxed.body.toString()),
        parsed.params ?? ('result' in parsed ? parsed.result : parsed.error),
      );
    }),
    { numRuns: 500 },
  );
});

test('S2.1 a text that JSON.parse refuses is a parse error, and a text that it accepts is not', () => {
  fc.assert(
    fc.property(mutated, (bytes) => {
      const result = scanMessage(bytes, 'stateful', 'strict');
      let parsed: unknown;
      let valid = isUtf8(bytes);
      try {
        parsed = JSON.parse(bytes.toString());
      } catch {
        valid = false;
      }
      assert.equal(isScanFailure(result) && result.code === 'PARSE_ERROR', !valid, bytes.toString());
      if (!isScanFailure(result)) {
        assert.ok(isObject(parsed));
        assert.equal((parsed as { jsonrpc: string }).jsonrpc, '2.0');
      }
    }),
    { numRuns: 2000 },
  );
});

test('bytes of any kind neither crash nor hang the scanner, and accepted ones cannot break a frame', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        mutated,
        fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
      ),
      (bytes) => {
        for (const mode of ['strict', 'relaxed'] as const) {
          const result = scanMessage(bytes, 'stateless', mode);
          if (isScanFailure(result)) continue;
          const again = scanMessage(oneLine(bytes), 'stateless', mode);
          assert.ok(!isScanFailure(again) && again.kind === result.kind && again.method === result.method);
          for (const key of ['a', '_meta', 'é']) {
            const range = result.bodyStart < 0 ? null : field(bytes, result.bodyStart, result.bodyEnd, key);
            if (range !== null) assert.ok(range.start >= result.bodyStart && range.end <= result.bodyEnd);
          }
          const other = scanMessage(Buffer.concat(withId(result, '"new"')), 'stateless', mode);
          assert.ok(
            !isScanFailure(other) && (result.id === '' && result.kind === 'notification' ? true : other.id === '"new"'),
          );
        }
        const line = oneLine(bytes);
        assert.ok(!line.includes(0x0a) && !line.includes(0x0d));
        scanBatch(bytes);
        canonical(bytes);
        duplicateKey(bytes, 0, bytes.length);
      },
    ),
    { numRuns: 2000 },
  );
});

test('check:B12 another id changes nothing but the id', () => {
  fc.assert(
    fc.property(message, id, (json, lexeme) => {
      const before = scanned(json, 'relaxed');
      fc.pre(before.id !== '');
      const bytes = Buffer.concat(withId(before, Buffer.from(lexeme).toString('latin1')));
      const after = scanned(bytes.toString(), 'relaxed');
      assert.equal(Buffer.from(after.id, 'latin1').toString(), lexeme);
      assert.deepEqual(Buffer.concat(withId(after, before.id)), before.bytes);
    }),
    { numRuns: 500 },
  );
});

test('check:B12 one line keeps the value and every lexeme', () => {
  fc.assert(
    fc.property(value, (json) => {
      const line = oneLine(Buffer.from(json)).toString();
      assert.ok(!/[\r\n]/.test(line));
      assert.equal(lexemes(line), lexemes(json));
      assert.deepEqual(JSON.parse(line), JSON.parse(json));
    }),
    { numRuns: 500 },
  );
});

test('an edit sets and removes exactly the given members, and leaves the bytes of the others', () => {
  const keys = ['a', 'b', '_meta', 'é', 'xy', 'new'];
  const change = fc.tuple(fc.constantFrom(...keys), fc.option(fc.constantFrom('1', '"s"', '[2]'), { nil: null }));
  const changes = fc.uniqueArray(change, { selector: ([key]) => key, maxLength: 6 });
  fc.assert(
    fc.property(object, changes, (json, all) => {
      const bytes = Buffer.from(json);
      const edited = splice(bytes, editMembers(bytes, { start: 0, end: bytes.length }, all));
      const expected = new Map(Object.entries(JSON.parse(json)));
      for (const [key, to] of all) {
        if (to === null) expected.delete(key);
        else expected.set(key, JSON.parse(to));
      }
      assert.deepEqual(new Map(Object.entries(JSON.parse(edited.toString()))), expected);
      for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(bytes, 0, bytes.length)) {
        const key = JSON.parse(bytes.toString('utf8', keyStart, keyEnd));
        if (all.some(([changed]) => changed === key)) continue;
        assert.equal(text(edited, field(edited, 0, edited.length, key)!), bytes.toString('utf8', valueStart, valueEnd));
      }
    }),
    { numRuns: 500 },
  );
});

test('canonical texts are equal for equal values, and canonicalising again changes nothing', () => {
  fc.assert(
    fc.property(value, (json) => {
      const once = canonical(json);
      assert.equal(canonical(once), once);
      assert.deepEqual(JSON.parse(once), JSON.parse(json));
      assert.equal(canonical(oneLine(Buffer.from(json))), once);
    }),
    { numRuns: 500 },
  );
});
