import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { configSchema } from '../../../scripts/schema/schema.ts';
import { schemaText } from '../../../scripts/schema/schema-files.ts';
import { Problems, Source } from '../problem/problem.ts';
import { configJsonSchema, type JsonSchema } from '../schema-json.ts';
import { parseJson } from './parse-json.ts';
import { checkShape } from './shape.ts';

const KEYS = [
  ...Object.keys(configJsonSchema().properties!),
  ...Object.keys(configJsonSchema().$defs!['server']!.properties!),
  ...['key', 'id', 'host', 'port', 'cert', 'level', 'dir', 'idleMs', 'max', 'maxProcesses', 'unknown', '__proto__'],
];
const leaf = fc.oneof(
  fc.constantFrom('', 'x', 'never', 'lazy', 'info', 'X-Header', 'a b'),
  fc.constantFrom(0, 1, 80, 2048, 1.5, -1, 70_000, 1e300, 700_000_000),
  fc.boolean(),
  fc.constant(null),
);
const { document } = fc.letrec((tie) => ({
  document: fc.dictionary(fc.constantFrom(...KEYS), tie('value'), { maxKeys: 4 }),
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...KEYS), tie('value'), { maxKeys: 4 }),
  ),
}));

/** Documents near the schema, so that about half of them are good. */
const near = fc.oneof(
  fc
    .dictionary(
      fc.constantFrom(...Object.keys(configJsonSchema().$defs!['server']!.properties!)),
      fc.oneof(leaf, fc.array(leaf)),
      {
        maxKeys: 2,
      },
    )
    .map((one) => ({ mcpServers: { one } })),
  fc
    .tuple(fc.constantFrom('listen', 'control', 'sessions', 'tls', 'log', 'data'), fc.constantFrom(...KEYS), leaf)
    .map(([key, inner, value]) => ({ [key]: { [inner]: value } })),
);

function accepts(text: string): { readonly good: boolean; readonly problems: readonly string[] } {
  const problems = new Problems();
  const source = new Source('<test>', text);
  const root = parseJson(source, problems)!;
  const context = { source, problems, strict: true, ignored: new Set<string>() };
  const good = checkShape(root, configJsonSchema(), '', context);
  return { good, problems: problems.errors.map(({ code, message }) => `${code} ${message}`) };
}

test('the run-time check accepts what the zod schema accepts check:A1', () => {
  let good = 0;
  let bad = 0;
  fc.assert(
    fc.property(fc.oneof(document, near), (value) => {
      const text = JSON.stringify(value);
      const checked = accepts(text);
      const { success } = configSchema.safeParse(JSON.parse(text));
      // zod takes any value under this key in a record, and drops it; the run-time check does not.
      if (text.includes('"__proto__"')) assert.ok(success || !checked.good);
      else assert.equal(checked.good, success, checked.problems.join('\n'));
      assert.equal(checked.good, checked.problems.length === 0);
      if (checked.good) good++;
      else bad++;
    }),
    { numRuns: 3000 },
  );
  assert.ok(good > 300 && bad > 300, `both kinds must be among them: ${good} good, ${bad} bad`);
});

test('a server with every key of the schema passes both checks', () => {
  const one: Record<string, unknown> = {};
  for (const [key, schema] of Object.entries(configJsonSchema().$defs!['server']!.properties!))
    one[key] = sample(schema);
  const text = JSON.stringify({ mcpServers: { one } });
  assert.deepEqual(accepts(text), { good: true, problems: [] });
  assert.equal(configSchema.safeParse(JSON.parse(text)).success, true);
});

test('the generated schema uses only what the run-time check supports', () => {
  const known = [
    ...['type', 'description', 'default', 'properties', 'additionalProperties', 'propertyNames', 'required', 'items'],
    ...['minItems', 'maxItems', 'enum', 'anyOf', 'minimum', 'exclusiveMinimum', 'maximum', 'minLength', 'maxLength'],
    ...['pattern'],
    ...['$ref', '$defs', '$schema', '$id', 'title', 'id'],
  ];
  const unknown = new Set<string>();
  const visit = (schema: JsonSchema): void => {
    for (const key of Object.keys(schema)) if (!known.includes(key)) unknown.add(key);
    for (const inner of [...Object.values(schema.properties ?? {}), ...Object.values(schema.$defs ?? {})]) visit(inner);
    for (const inner of [schema.items, schema.additionalProperties, ...(schema.anyOf ?? [])]) if (inner) visit(inner);
    // The schema does not restrict the names of keys, except that they are text.
    assert.deepEqual(schema.propertyNames ?? { type: 'string' }, { type: 'string' });
  };
  visit(configJsonSchema());
  assert.deepEqual([...unknown], []);
});

test('the published schema is the generated one', () => {
  const published = readFileSync(join(import.meta.dirname, '../../../schema/config.schema.json'), 'utf8');
  assert.equal(published, schemaText());
});

function sample(schema: JsonSchema): unknown {
  if (schema.anyOf !== undefined) return sample(schema.anyOf[0]!);
  if (schema.enum !== undefined) return schema.enum[0];
  const type = typeof schema.type === 'string' ? schema.type : schema.type?.[0];
  if (type === 'object') {
    return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([key, inner]) => [key, sample(inner)]));
  }
  if (type === 'array') return [sample(schema.items ?? {})];
  if (type === 'boolean') return true;
  return type === 'number' || type === 'integer' ? Math.max(schema.minimum ?? 1, 1) : 'x';
}
