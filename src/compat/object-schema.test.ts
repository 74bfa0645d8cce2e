import assert from 'node:assert/strict';
import { test } from 'node:test';
import { objectSchema } from './object-schema.ts';

test('S2.18 check:D12 builds simple input schemas for tools made by programs', () => {
  assert.deepEqual(
    objectSchema({
      city: { type: 'string', description: 'Where' },
      unit: { type: 'string', enum: ['c', 'f'], default: 'c', optional: true },
      days: { type: 'array', items: { type: 'integer' } },
    }),
    {
      type: 'object',
      properties: {
        city: { type: 'string', description: 'Where' },
        unit: { type: 'string', enum: ['c', 'f'], default: 'c' },
        days: { type: 'array', items: { type: 'integer' } },
      },
      required: ['city', 'days'],
    },
  );
});

test('S2.18 leaves out empty parts, as the seeds did', () => {
  assert.equal(JSON.stringify(objectSchema({})), '{"type":"object"}');
  assert.equal(
    JSON.stringify(objectSchema({ a: { type: 'boolean', optional: true } })),
    '{"type":"object","properties":{"a":{"type":"boolean"}}}',
  );
});
