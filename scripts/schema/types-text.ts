import { type JsonSchema, typesOf } from '../../src/config/schema-json.ts';

const HEAD = '// Generated from scripts/schema/schema.ts by `npm run generate`. Do not edit.\n';

/**
 * The TypeScript types of a configuration, for programs. They are written out and not inferred from the zod schema, so
 * that the published types need no zod; a test compares the two.
 */
export function typesText(schema: JsonSchema): string {
  const interfaces = new Interfaces();
  interfaces.add('ServerInput', 'ServerInput', { ...schema.$defs!['server']!, description: SERVER });
  interfaces.add('ConfigInput', 'ConfigInput', { ...schema, description: CONFIG });
  return `${HEAD}\n${interfaces.texts.join('\n')}`;
}

const SERVER = 'A server as a configuration file has it under its name.';
const CONFIG = 'A whole configuration, in the format of a file (docs/config.md).';
const PUBLIC: ReadonlySet<string> = new Set(['ServerInput', 'ConfigInput']);

/** One interface for each object with keys of its own, inner ones first. */
class Interfaces {
  readonly texts: string[] = [];

  /** Interfaces of inner objects are named after their key: `stem` and the key. */
  add(name: string, stem: string, { description, properties, required, additionalProperties }: JsonSchema): void {
    const members = Object.entries(properties ?? {}).map(([key, schema]) => {
      const type = this.#type(schema, stem + key[0]!.toUpperCase() + key.slice(1));
      const typed = required?.includes(key) === true ? `${key}: ${type}` : `${key}?: ${type} | undefined`;
      return `${comment(schema.description, '  ')}  readonly ${typed};\n`;
    });
    if (additionalProperties) members.push(`  readonly [key: string]: ${this.#type(additionalProperties, stem)};\n`);
    const head = `${PUBLIC.has(name) ? 'export ' : ''}interface ${name}`;
    this.texts.push(`${comment(description, '')}${head} {\n${members.join('')}}\n`);
  }

  #type(schema: JsonSchema, name: string): string {
    if (schema.$ref !== undefined) return 'ServerInput';
    if (schema.anyOf !== undefined) return schema.anyOf.map((one) => this.#type(one, name)).join(' | ');
    if (schema.enum !== undefined) return schema.enum.map((word) => `'${word}'`).join(' | ');
    const types = typesOf(schema);
    if (types.length > 1) return types.map((type) => this.#type({ ...schema, type }, name)).join(' | ');
    const [type = 'unknown'] = types;
    if (type === 'integer') return 'number';
    if (type === 'array') return arrayOf(this.#type(schema.items ?? {}, name));
    if (type !== 'object') return type;
    if (schema.properties === undefined) {
      return `Readonly<Record<string, ${this.#type(schema.additionalProperties || {}, name)}>>`;
    }
    this.add(name, name, { ...schema, description: '' });
    return name;
  }
}

function arrayOf(item: string): string {
  return item.includes('|') ? `readonly (${item})[]` : `readonly ${item}[]`;
}

function comment(text: string | undefined, indent: string): string {
  return text === undefined || text === '' ? '' : `${indent}/** ${text} */\n`;
}
