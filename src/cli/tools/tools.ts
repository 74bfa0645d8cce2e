import { styleText } from 'node:util';
import { counted } from '../../model/counted.ts';
import { printable } from '../../model/printable.ts';
import { isReady, isSettled } from '../../model/server-state.ts';
import { accessGateway } from '../access/gateway-access.ts';
import type { CommandInput } from '../command-input.ts';
import { EXIT, type ExitCode, noSuch } from '../exit-code.ts';
import { needsAttention, serverLine, unlisted } from '../server-line.ts';

/**
 * `trunkline tools [server]`: TypeScript-like signatures by server, with the exposed name if it is not the usual one. Standard
 * error says which servers are not ready; a named one that is down and lists no tool is an error, as for `call`.
 */
export async function tools(input: CommandInput & { readonly server: string | undefined }): Promise<ExitCode> {
  const { terminal, flags, server } = input;
  const gateway = await accessGateway(input, server);
  try {
    const all = await gateway.tools();
    const statuses = await gateway.statuses();
    const names = [...new Set([...statuses.map(({ name }) => name), ...all.map((tool) => tool.server)])];
    if (server !== undefined && !names.includes(server)) throw noSuch(`server "${server}"`, server, names);
    const shown = all.filter((tool) => server === undefined || tool.server === server);
    const down = statuses.filter((status) => !isReady(status));
    const named = down.find(({ name }) => name === server);
    if (named !== undefined && shown.length === 0 && isSettled(named)) throw unlisted(named);
    if (flags.json === true) {
      const items = shown.map(
        ({ definition, ...rest }) => `${JSON.stringify(rest).slice(0, -1)},"definition":${definition}}`,
      );
      terminal.out(`{"tools":[${items.join(',')}]}\n`);
    }
    const listed = new Set(shown.map((tool) => tool.server));
    for (const name of flags.json === true ? [] : listed) {
      const own = shown.filter((tool) => tool.server === name);
      terminal.out(`${styleText('bold', name)} (${counted(own.length, 'tool')})\n\n`);
      for (const tool of own) {
        const usual = `${tool.server}__${tool.name}`;
        const renamed = tool.exposedName === usual ? '' : `// exposed as ${tool.exposedName}\n`;
        terminal.out(`${renamed}${printable(toolSignature(JSON.parse(tool.definition) as ToolDefinition))}\n\n`);
      }
    }
    for (const one of server === undefined ? down : down.filter(({ name }) => name === server)) {
      if (listed.has(one.name) && !needsAttention(one)) continue;
      terminal.err(`not ready: ${serverLine(one, one.name.length, Date.now()).trimStart()}\n`);
    }
    return EXIT.ok;
  } finally {
    await gateway.close();
  }
}

/** The parts of a JSON Schema that a signature shows; it omits all others. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly additionalProperties?: boolean | Schema;
  readonly description?: string;
}

interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema?: Schema;
  readonly outputSchema?: Schema;
}

const DEEPEST = 4;

/**
 * A tool as a TypeScript-like signature, below its description, for people and models:
 *
 *     // Adds two numbers.
 *     add(a: number, b?: number)
 */
export function toolSignature(tool: ToolDefinition): string {
  const comment = (tool.description ?? '')
    .trim()
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => `// ${line.trim()}`);
  const required = new Set(tool.inputSchema?.required ?? []);
  const parameters = Object.entries(tool.inputSchema?.properties ?? {})
    .sort(([a], [b]) => Number(required.has(b)) - Number(required.has(a)))
    .map(([name, schema]) => `${propertyName(name)}${required.has(name) ? '' : '?'}: ${typeText(schema, 0)}`);
  const output = tool.outputSchema === undefined ? '' : `: ${typeText(tool.outputSchema, 0)}`;
  return [...comment, `${tool.name}(${parameters.join(', ')})${output}`].join('\n');
}

function typeText(schema: Schema, depth: number): string {
  if (typeof schema !== 'object' || schema === null || depth > DEEPEST) return 'unknown';
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(alternatives)) return unique(alternatives.map((one) => typeText(one, depth + 1))).join(' | ');
  if (Array.isArray(schema.type)) {
    return unique(schema.type.map((type: string) => typeText({ ...schema, type }, depth))).join(' | ');
  }
  switch (schema.type) {
    case 'integer':
      return 'number';
    case 'array': {
      const element = typeText(schema.items ?? {}, depth + 1);
      return element.includes(' ') ? `(${element})[]` : `${element}[]`;
    }
    case 'object':
      return objectText(schema, depth);
    case undefined:
      return schema.properties === undefined ? 'unknown' : objectText(schema, depth);
    default:
      return schema.type as string;
  }
}

function objectText(schema: Schema, depth: number): string {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const members = Object.entries(schema.properties ?? {}).map(
    ([name, member]) => `${propertyName(name)}${required.has(name) ? '' : '?'}: ${typeText(member, depth + 1)}`,
  );
  if (members.length > 0) return `{ ${members.join('; ')} }`;
  const value = schema.additionalProperties;
  return typeof value === 'object' ? `Record<string, ${typeText(value, depth + 1)}>` : 'object';
}

function propertyName(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}
