import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judgeChange } from './severity.ts';

type Json = Record<string, unknown>;

const bytes = (value: object | string) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
const tool = (properties: Json, more: Json = {}, required: string[] = []) => ({
  name: 'a',
  inputSchema: { type: 'object', properties, required, ...more },
});
const judge = (before: object | string, after: object | string) => judgeChange('tools', bytes(before), bytes(after));
const schema = (before: unknown, after: unknown) => judge(tool({ p: before }), tool({ p: after }));

test('check:G4 a change is breaking when a valid call may become invalid', () => {
  const breaking: readonly (readonly [object, object, RegExp])[] = [
    [tool({}), tool({ p: {} }, {}, ['p']), /argument p is new and required/],
    [tool({ p: {} }), tool({ p: {} }, {}, ['p']), /argument p became required/],
    [tool({ p: {} }), tool({}), /argument p is gone/],
    [
      tool({ p: { type: ['string', 'number'] } }),
      tool({ p: { type: 'string' } }),
      /p takes string and no longer number/,
    ],
    [tool({ p: {} }), tool({ p: { type: 'string' } }), /no longer any/],
    [tool({ p: { type: 'number' } }), tool({ p: { type: 'integer' } }), /no longer number/],
    [tool({ p: { enum: ['a', 'b'] } }), tool({ p: { enum: ['b'] } }), /p no longer takes "a"/],
    [tool({ p: {} }), tool({ p: { const: 1 } }), /only some values/],
    [tool({ p: { const: 'a' } }), tool({ p: { const: 'a', enum: ['b'] } }), /p no longer takes "a"/],
    [tool({ p: { enum: [{ a: 1 }] } }), tool({ p: { enum: [[['a', 1]]] } }), /p no longer takes \{"a":1\}/],
    [tool({ p: { oneOf: [{ type: 'string' }] } }), tool({ p: { oneOf: [{ type: 'string' }, {}] } }), /different oneOf/],
    [tool({ p: { maxLength: 9 } }), tool({ p: { maxLength: 8 } }), /different maxLength/],
    [tool({ p: {} }), tool({ p: { minimum: 0 } }), /different minimum/],
    [tool({ p: { pattern: 'a' } }), tool({ p: { pattern: 'b' } }), /different pattern/],
    [tool({ p: { type: 'array' } }), tool({ p: { type: 'array', items: { type: 'string' } } }), /p\.\[\] takes string/],
    [tool({}), tool({}, { additionalProperties: false }), /no longer takes other members/],
    [
      tool({ p: { anyOf: [{ type: 'string' }, { type: 'null' }] } }),
      tool({ p: { anyOf: [{ type: 'string' }] } }),
      /anyOf/,
    ],
    [
      tool({ p: { properties: { q: { type: 'string' } } } }),
      tool({ p: { properties: { q: { type: 'null' } } } }),
      /p\.q/,
    ],
    [tool({ p: {} }, { $defs: { d: {} } }), tool({ p: {} }, { $defs: { d: { type: 'null' } } }), /\$d takes null/],
    [tool({ p: { 'x-mcp-header': 'A' } }), tool({ p: { 'x-mcp-header': 'B' } }), /header/],
    [tool({ p: true }), tool({ p: false }), /cannot be compared/],
  ];
  for (const [before, after, why] of breaking) {
    const { severity, reasons } = judge(before, after);
    assert.equal(severity, 'breaking', String(why));
    assert.match(reasons[0]!, why);
  }
});

test('check:G4 a definition that accepts everything it accepted before is not breaking', () => {
  for (const [before, after] of [
    [{ type: 'integer' }, { type: 'number' }],
    [{ type: 'string' }, {}],
    [{ type: 'string' }, true],
    [{ enum: ['a'] }, { enum: ['b', 'a'] }],
    [{ const: 'a' }, { enum: ['b', 'a'] }],
    [{ const: 'a', enum: ['b', 'a'] }, { enum: ['a', 'c'] }],
    [{ maxLength: 8 }, { maxLength: 9 }],
    [{ minimum: 1 }, {}],
    [{ pattern: 'a' }, {}],
    [{ anyOf: [{ type: 'string' }] }, { anyOf: [{ type: 'null' }, { type: 'string' }] }],
    [{ items: { type: 'string' } }, {}],
  ]) {
    assert.equal(schema(before, after).severity, 'behaviour', JSON.stringify(after));
  }
  const [one, other] = [{ type: 'string' }, { type: 'null' }];
  assert.equal(schema({ oneOf: [one, other] }, { oneOf: [other, one] }).severity, 'wording');
  assert.equal(judge(tool({}), tool({ p: { type: 'string' } })).severity, 'behaviour');
  assert.equal(judge(tool({ p: {} }, {}, ['p']), tool({ p: {} })).severity, 'behaviour');
});

test('check:G4 wording, hints of a tool and its results are separate classes', () => {
  const worded = tool({ p: { type: 'string', description: 'new', default: 'x' } });
  assert.equal(
    judge({ ...tool({ p: { type: 'string' } }), description: 'a' }, { ...worded, description: 'b' }).severity,
    'wording',
  );
  const reads = { ...tool({}), annotations: { readOnlyHint: true } };
  const hinted = judge(reads, tool({}));
  assert.equal(hinted.severity, 'behaviour');
  assert.match(hinted.reasons[0]!, /only reads/);
  const out = (value: unknown) => ({ ...tool({}), outputSchema: value });
  const object = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
  assert.equal(judge(out(object), tool({})).severity, 'breaking');
  assert.equal(judge(tool({}), out(object)).severity, 'behaviour');
  assert.match(judge(out(object), out({ ...object, required: [] })).reasons[0]!, /output: result member n/);
  assert.equal(judge(out({ ...object, required: [] }), out(object)).severity, 'behaviour');
  assert.equal(
    judge({ ...tool({}), execution: {} }, { ...tool({}), execution: { taskSupport: 'required' } }).severity,
    'breaking',
  );
});

test('check:G4 a number that a double would round counts by its digits', () => {
  const before = '{"inputSchema":{"properties":{"p":{"enum":[12345678901234567890]}}}}';
  assert.equal(judge(before, before.replace('890]', '891]')).severity, 'breaking');
});

test('check:G4 prompts are judged by their arguments; unreadable ones are breaking', () => {
  const prompt = (...args: Json[]) => bytes({ name: 'p', arguments: args });
  const judgePrompt = (before: Buffer, after: Buffer) => judgeChange('prompts', before, after).severity;
  assert.equal(judgePrompt(prompt({ name: 'a' }), prompt({ name: 'a', required: true })), 'breaking');
  assert.equal(judgePrompt(prompt({ name: 'a' }), prompt()), 'breaking');
  assert.equal(judgePrompt(prompt(), prompt({ name: 'a' })), 'behaviour');
  assert.equal(judge('{"a":1}', '[]').severity, 'breaking');
  assert.equal(judge('{"a":1}', `{"a":"${'x'.repeat(100_000)}"}`).severity, 'breaking');
  assert.notEqual(judge('{"a":1}', `{"a":${'['.repeat(9_000)}${']'.repeat(9_000)}}`).reasons.length, 0);
});

test('S4.19 schemas that cost too much to compare count as breaking', () => {
  const schema = (last: number) => {
    const inner = `{"enum":[${Array.from({ length: 9_000 }, (_, i) => i)}],"default":${last}}`;
    return Buffer.from(`{"name":"t","inputSchema":${'{"items":'.repeat(20)}${inner}${'}'.repeat(20)}}`);
  };
  const { severity, reasons } = judgeChange('tools', schema(1), schema(2));
  assert.equal(severity, 'breaking');
  assert.match(reasons.join(), /cannot be compared|has a different/);
});
