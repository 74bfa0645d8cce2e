import { readFileSync } from 'node:fs';

export type JsonType = 'object' | 'array' | 'string' | 'number' | 'integer' | 'boolean';

/** The part of JSON Schema that the generated file uses; a test fails when it comes to use more. */
export interface JsonSchema {
  readonly type?: JsonType | readonly JsonType[];
  readonly description?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | false;
  readonly propertyNames?: JsonSchema;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly JsonSchema[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
}

let loaded: JsonSchema | null = null;

/** `schema/config.schema.json`, generated from `schema.ts` by `npm run generate` and shipped with the package. */
export function configJsonSchema(): JsonSchema {
  loaded ??= JSON.parse(
    readFileSync(new URL('../../../schema/config.schema.json', import.meta.url), 'utf8'),
  ) as JsonSchema;
  return loaded;
}

export function serverJsonSchema(): JsonSchema {
  return configJsonSchema().$defs!['server']!;
}

/** Follows `#/$defs/name`; the schema has no other references. */
export function resolved(schema: JsonSchema): JsonSchema {
  if (schema.$ref === undefined) return schema;
  return configJsonSchema().$defs![schema.$ref.slice('#/$defs/'.length)]!;
}

/** The types a schema allows by itself; empty for any. */
export function typesOf(schema: JsonSchema): readonly JsonType[] {
  if (schema.type === undefined) return [];
  return typeof schema.type === 'string' ? [schema.type] : schema.type;
}
