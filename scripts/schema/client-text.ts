type JsonSchema = Readonly<Record<string, unknown>>;

interface OpenApiParameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly schema: JsonSchema;
  /** Replaces all other members. */
  readonly $ref?: string;
}

interface OpenApiOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly OpenApiParameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>> };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>> }>
  >;
}

interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

const HEAD = `// Generated from schema/openapi.json by: npm run generate
import { type CallOptions, query, request, type StreamOptions, stream } from './request.ts';

`;
const STREAM = 'text/event-stream';
const REFERENCE = '#/components/schemas/';
const NODE_PARAMETER = '#/components/parameters/node';
const NODE: OpenApiParameter = { name: 'node', in: 'query', schema: { type: 'string' } };

/** The console's client of the control API: a type for each component and a function for each operation. */
export function clientText(document: object): string {
  const { paths, components } = document as OpenApiDocument;
  const types = Object.entries(components.schemas).map(
    ([name, schema]) => `${comment(schema['description'])}export type ${name} = ${typeOf(schema)};\n`,
  );
  const functions = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => functionText(path, method.toUpperCase(), operation)),
  );
  return HEAD + [...types, ...functions].join('\n');
}

function functionText(path: string, method: string, operation: OpenApiOperation): string {
  const { operationId: id, summary, parameters = [], requestBody, responses } = operation;
  const inPath = parameters.filter((one) => one.in === 'path');
  const body = requestBody?.content['application/json']?.schema;
  const own = parameters.filter((one) => one.in === 'query');
  // An operation without input of its own is sent to the node of the page.
  const hasInput = own.length > 0 || inPath.length > 0 || body !== undefined;
  const isAtNode = hasInput && parameters.some(({ $ref }) => $ref === NODE_PARAMETER);
  const inQuery = isAtNode ? [...own, NODE] : own;
  const [media, good] = Object.entries(
    Object.entries(responses).find(([status]) => status.startsWith('2'))![1].content!,
  )[0]!;
  const members = [
    ...inPath.map(({ name }) => `readonly ${name}: string`),
    ...inQuery.map(({ name, schema }) => `readonly ${name}?: ${typeOf(schema)} | undefined`),
    ...(body === undefined ? [] : [`readonly body: ${typeOf(body)}`]),
  ];
  const needed = inPath.length > 0 || body !== undefined;
  const input = members.length === 0 ? '' : `input: { ${members.join('; ')} }${needed ? '' : ' = {}'}, `;
  const address = path.slice(1).replace('{name}', '${encodeURIComponent(input.name)}');
  const asked = inQuery.map(({ name }) => `${name}: input.${name}`).join(', ');
  const target = `\`${address}${inQuery.length === 0 ? '' : `\${query({ ${asked} })}`}\``;
  const sent = body === undefined ? 'undefined' : 'input.body';
  const answer = typeOf(good.schema);
  const head = `${comment(summary)}export function ${id}(`;
  if (media === STREAM) {
    return `${head}${input}options: StreamOptions<${answer}>): Promise<void> {\n  return stream('${method}', ${target}, ${sent}, options);\n}\n`;
  }
  return `${head}${input}options: CallOptions = {}): Promise<${answer}> {\n  return request('${method}', ${target}, ${sent}, options);\n}\n`;
}

function comment(text: unknown): string {
  return typeof text === 'string' ? `/** ${text.replaceAll('*/', '* /')} */\n` : '';
}

function typeOf(schema: JsonSchema): string {
  const { $ref, enum: values, anyOf, oneOf, type } = schema;
  if (typeof $ref === 'string') {
    return $ref.startsWith(REFERENCE) ? $ref.slice(REFERENCE.length) : 'Readonly<Record<string, unknown>>';
  }
  if ('const' in schema) return JSON.stringify(schema['const']);
  if (values !== undefined) return (values as readonly unknown[]).map((value) => JSON.stringify(value)).join(' | ');
  const variants = (anyOf ?? oneOf) as readonly JsonSchema[] | undefined;
  if (variants !== undefined) return variants.map(typeOf).join(' | ');
  if (type === undefined) return 'unknown';
  const types = Array.isArray(type) ? (type as readonly string[]) : [type as string];
  return types.map((one) => plainType(one, schema)).join(' | ');
}

function plainType(type: string, schema: JsonSchema): string {
  if (type === 'array') return `readonly (${typeOf((schema['items'] ?? {}) as JsonSchema)})[]`;
  if (type === 'integer') return 'number';
  if (type !== 'object') return type;
  const { properties, required = [], additionalProperties } = schema;
  if (properties === undefined || additionalProperties === true) {
    const values = typeof additionalProperties === 'object' ? typeOf(additionalProperties as JsonSchema) : 'unknown';
    return `Readonly<Record<string, ${values}>>`;
  }
  const members = Object.entries(properties as Readonly<Record<string, JsonSchema>>).map(([name, member]) => {
    const isNeeded = (required as readonly string[]).includes(name);
    const key = /^\w+$/.test(name) ? name : JSON.stringify(name);
    return `${comment(member['description'])}readonly ${key}${isNeeded ? '' : '?'}: ${typeOf(member)}`;
  });
  return `{\n${members.join(';\n')}\n}`;
}
