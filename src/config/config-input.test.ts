import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { z } from 'zod';
import type { ConfigInput, ServerInput } from '../../schema/config-input.d.ts';
import type { configSchema } from '../../scripts/schema/schema.ts';
import { schemaText } from '../../scripts/schema/schema-files.ts';
import type { serverSchema } from '../../scripts/schema/schema-server.ts';
import { typesText } from '../../scripts/schema/types-text.ts';

/** The type that zod infers, deeply read-only like the generated types. */
type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Frozen<T[Key]> }
    : T;

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

test('the generated types are those that zod infers, and are up to date', () => {
  // If the types differ, the type check fails in these two lines.
  const config: Same<Frozen<z.infer<typeof configSchema>>, ConfigInput> = true;
  const server: Same<Frozen<z.infer<typeof serverSchema>>, ServerInput> = true;
  assert.ok(config && server);
  const published = readFileSync(join(import.meta.dirname, '../../schema/config-input.d.ts'), 'utf8');
  assert.equal(published, typesText(JSON.parse(schemaText())));
});
