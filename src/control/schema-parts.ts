import type { Schema } from './operation.ts';

/** What the schemas of the control API are written with. */
export const text: Schema = { type: 'string' };
export const count: Schema = { type: 'integer', minimum: 0 };
export const nullable = (schema: Schema): Schema => ({ anyOf: [schema, { type: 'null' }] });
export const list = (items: Schema): Schema => ({ type: 'array', items });

/** Every property is required: an answer that lacks one would be a defect. */
export function object(properties: Readonly<Record<string, Schema>>, description?: string): Schema {
  return {
    type: 'object',
    ...(description === undefined ? {} : { description }),
    properties,
    required: Object.keys(properties),
  };
}
