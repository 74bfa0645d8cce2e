import { z } from 'zod';
import { configSchema } from './schema.ts';

/** Where editors find the schema of the published package. */
const SCHEMA_ID = 'https://unpkg.com/trunkline/schema/config.schema.json';

/** The published JSON Schema (draft 2020-12) as text. */
export function schemaText(): string {
  const { $schema, ...schema } = z.toJSONSchema(configSchema, { target: 'draft-2020-12', io: 'input' });
  return `${JSON.stringify({ $schema, $id: SCHEMA_ID, title: 'Trunkline configuration', ...schema }, null, 2)}\n`;
}
