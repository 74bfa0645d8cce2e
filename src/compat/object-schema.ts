/** One property of a simple input schema (S2.18). */
export interface Property {
  readonly type: 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'object';
  readonly description?: string;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly items?: Property;
  readonly properties?: Readonly<Record<string, Property>>;
}

export interface InputSchemaObject {
  readonly type: 'object';
  readonly properties?: Readonly<Record<string, Property>>;
  readonly required?: readonly string[];
}

/** A property that a caller may leave out. */
export type OptionalProperty = Property & { readonly optional: true };

/**
 * The input schema of a tool that a program defines (S2.18). Properties are required unless marked `optional`. Schemas of
 * servers are never built here; they keep their bytes.
 */
export function objectSchema(properties: Readonly<Record<string, Property | OptionalProperty>>): InputSchemaObject {
  const plain: Record<string, Property> = {};
  const required: string[] = [];
  for (const [name, property] of Object.entries(properties)) {
    const { optional, ...rest } = property as OptionalProperty & { readonly optional?: boolean };
    plain[name] = rest;
    if (optional !== true) required.push(name);
  }
  return {
    type: 'object',
    ...(Object.keys(plain).length === 0 ? {} : { properties: plain }),
    ...(required.length === 0 ? {} : { required }),
  };
}
