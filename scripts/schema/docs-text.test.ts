import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { configJsonSchema } from '../../src/config/schema-json.ts';
import { docsText } from './docs-text.ts';

const ROOT = join(import.meta.dirname, '../..');

test('docs/config.md is up to date', () => {
  assert.equal(readFileSync(join(ROOT, 'docs/config.md'), 'utf8'), docsText(configJsonSchema()));
});

test('every key of the schema has a description', () => {
  const rows = [
    ...docsText(configJsonSchema()).matchAll(/^\| `([^`]+)` \| [^|]*(?:\\\|[^|]*)* \| [^|]* \| (.*) \|$/gm),
  ];
  assert.ok(rows.length > 60, `${rows.length} rows`);
  for (const [, key, meaning] of rows) assert.ok(meaning!.length > 5, `${key} has no description`);
});
