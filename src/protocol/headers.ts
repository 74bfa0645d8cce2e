/** Values of `Mcp-Name` and `Mcp-Param-*`: visible ASCII, else `=?base64?…?=` of UTF-8 (2026-07-28, §Value Encoding). */
import { isUtf8 } from 'node:buffer';
import { decodeString, entries, field, fieldAt, keyIs, type Range } from './fields.ts';

/** Request headers with lower-case names, as node:http gives them (repeated ones joined with a comma). */
export interface WireHeaders {
  readonly [name: string]: string | readonly string[] | undefined;
}

const PREFIX = '=?base64?';
const SUFFIX = '?=';

/** Longest value that is decoded; a longer one is refused before any work (proto:H7). */
export const MAX_HEADER_VALUE = 16 * 1024;

const CANONICAL_BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** One header's value without optional white space (RFC 9110 §5.5); null if it is absent. */
export function headerValue(headers: WireHeaders, name: string): string | null {
  const value = headers[name];
  if (value === undefined) return null;
  return trimOws(typeof value === 'string' ? value : value.join(', '));
}

/** The text that a header value encodes; null if it is too long, not header text, or badly encoded. */
export function decodeHeaderValue(value: string): string | null {
  if (value.length > MAX_HEADER_VALUE) return null;
  const raw = trimOws(value);
  if (!isSentinel(raw)) return isFieldText(raw) ? raw : null;
  const base64 = raw.slice(PREFIX.length, raw.length - SUFFIX.length);
  if (!CANONICAL_BASE64.test(base64)) return null;
  const bytes = Buffer.from(base64, 'base64');
  // Unused bits of the last character must be zero, so that each value has one spelling.
  if (!isUtf8(bytes) || bytes.toString('base64') !== base64) return null;
  return bytes.toString('utf8');
}

/** The header value for a text. The empty text is encoded too, because intermediaries may drop empty header lines. */
export function encodeHeaderValue(text: string): string {
  if (text !== '' && !isSentinel(text) && isFieldText(text) && trimOws(text) === text) return text;
  return `${PREFIX}${Buffer.from(text).toString('base64')}${SUFFIX}`;
}

function isSentinel(value: string): boolean {
  return value.length >= PREFIX.length + SUFFIX.length && value.startsWith(PREFIX) && value.endsWith(SUFFIX);
}

/** Visible ASCII, space and tab: the characters of a field value that are neither obsolete nor an injection. */
export function isFieldText(value: string): boolean {
  for (let i = 0; i < value.length; i++) {
    const c = value.charCodeAt(i);
    if ((c < 0x20 && c !== 0x09) || c > 0x7e) return false;
  }
  return true;
}

function trimOws(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isOws(value.charCodeAt(start))) start++;
  while (end > start && isOws(value.charCodeAt(end - 1))) end--;
  return start === 0 && end === value.length ? value : value.slice(start, end);
}

function isOws(c: number): boolean {
  return c === 0x20 || c === 0x09;
}

/** Tool parameters in `Mcp-Param-*` headers (2026-07-28, streamable-http §Custom Headers). */

export interface HeaderParam {
  /** The part of the name after `Mcp-Param-`, as declared. */
  readonly header: string;
  readonly path: readonly string[];
  readonly type: 'string' | 'integer' | 'boolean';
}

export type HeaderParams =
  | { readonly ok: true; readonly declared: readonly HeaderParam[] }
  /** The declaration is invalid: the tool is not offered to Streamable HTTP clients and servers. */
  | { readonly ok: false; readonly reason: string };

export const HEADER_ANNOTATION = 'x-mcp-header';
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const DECIMAL = /^-?[0-9]+(?:\.[0-9]+)?$/;
const NONE: HeaderParams = { ok: true, declared: [] };

/** Deeper schemas are not scanned; annotated ones at that depth are invalid. */
const MAX_SCHEMA_DEPTH = 64;
/** Characters of a server's names in a message. */
const MAX_SHOWN = 200;
/** Path steps to all parameters of a tool: each reads the arguments of a call once, and those may be large. */
const MAX_STEPS = 32;

/** Members of a schema with values or names instead of schemas: an equal key inside them is no annotation. */
const NO_SCHEMA = new Set(['const', 'default', 'enum', 'examples', 'required', 'type', 'dependentRequired']);
/** Members that map names of the author's choice to schemas. */
const NAMED_SCHEMAS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);

/** The `x-mcp-header` annotations of a tool's `inputSchema`. `tool` is the tool's JSON object. */
export function scanHeaderParams(tool: Buffer): HeaderParams {
  // Nearly all tools have none: one native search. An escape could hide the name.
  if (!tool.includes(HEADER_ANNOTATION) && !tool.includes('\\u')) return NONE;
  const range = field(tool, 0, tool.length, 'inputSchema');
  if (range === null) return NONE;
  const declared: HeaderParam[] = [];
  try {
    const schema: unknown = JSON.parse(tool.toString('utf8', range.start, range.end));
    visit(schema, [], true, 0, declared);
    return { ok: true, declared };
  } catch (error) {
    if (error instanceof InvalidDeclaration) return { ok: false, reason: error.message };
    return { ok: false, reason: 'inputSchema is not JSON, or nested beyond measure' };
  }
}

/** The headers of a call, name and value alternating. Absent and null parameters have none. */
export function paramHeaders(declared: readonly HeaderParam[], bytes: Buffer, args: Range | null): string[] {
  const headers: string[] = [];
  for (const param of declared) {
    const found = args === null ? null : fieldAt(bytes, args.start, args.end, param.path);
    const value = found === null ? null : valueIn(bytes, found);
    if (value !== null) headers.push(`Mcp-Param-${param.header}`, encodeHeaderValue(value));
  }
  return headers;
}

/** What is wrong with a client's `Mcp-Param-*` headers compared with its `arguments`; null if they agree. */
export function paramHeadersFault(
  declared: readonly HeaderParam[],
  headers: WireHeaders,
  bytes: Buffer,
  args: Range | null,
): string | null {
  for (const param of declared) {
    const name = `Mcp-Param-${param.header}`;
    const raw = headerValue(headers, name.toLowerCase());
    const where = param.path.join('.');
    const found = args === null ? null : find(param, bytes, args);
    if (found === TWICE) return `the body has ${where} twice`;
    const value = found === null ? null : valueIn(bytes, found);
    if (value === null) {
      if (raw !== null) return `the header ${name} is there, but the body has no value at ${where}`;
      continue;
    }
    if (raw === null) return `the body has a value at ${where}, but the header ${name} is missing`;
    const decoded = decodeHeaderValue(raw);
    if (decoded === null) return `the header ${name} is not validly encoded`;
    const numeric = param.type === 'integer' && DECIMAL.test(decoded) && DECIMAL.test(value);
    // Beyond the safe integers different numbers are the same double.
    const exact = numeric && Number.isSafeInteger(Number(value));
    if (exact ? Number(decoded) !== Number(value) : decoded !== value) {
      return `the header ${name} differs from the body's ${where}`;
    }
  }
  return null;
}

/** The parameter's value as header text; null if no header can carry it. */
function valueIn(bytes: Buffer, range: Range): string | null {
  switch (bytes[range.start]) {
    case 0x22:
      return decodeString(bytes, range.start, range.end);
    case 0x7b:
    case 0x5b:
    case 0x6e: // null
      return null;
    case 0x74: // true
    case 0x66: // false
      return bytes.toString('latin1', range.start, range.end);
    default: {
      const lexeme = bytes.toString('latin1', range.start, range.end);
      const number = Number(lexeme);
      return Number.isSafeInteger(number) ? String(number === 0 ? 0 : number) : lexeme;
    }
  }
}

/** The parameter's value; `TWICE` if a key on its path is repeated, so that header and server could mean different values. */
function find(param: HeaderParam, bytes: Buffer, args: Range): Range | null {
  let range: Range = args;
  for (const key of param.path) {
    let found: Range | null = null;
    for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(bytes, range.start, range.end)) {
      if (!keyIs(bytes, keyStart, keyEnd, key)) continue;
      if (found !== null) return TWICE;
      found = { start: valueStart, end: valueEnd };
    }
    if (found === null) return null;
    range = found;
  }
  return range;
}

const TWICE: Range = { start: -1, end: -1 };

class InvalidDeclaration extends Error {}

/** Throws InvalidDeclaration. `reachable`: only `properties` keys lead here from the root. */
function visit(node: unknown, path: readonly string[], reachable: boolean, depth: number, found: HeaderParam[]): void {
  if (node === null || typeof node !== 'object') return;
  if (depth > MAX_SCHEMA_DEPTH) {
    if (JSON.stringify(node).includes(HEADER_ANNOTATION)) throw new InvalidDeclaration('an annotation lies too deep');
    return;
  }
  if (Array.isArray(node)) {
    for (const item of node) visit(item, path, false, depth + 1, found);
    return;
  }
  const schema = node as Record<string, unknown>;
  if (Object.hasOwn(schema, HEADER_ANNOTATION)) declare(schema, path, reachable, found);
  for (const [key, value] of Object.entries(schema)) {
    if (NO_SCHEMA.has(key)) continue;
    if (!NAMED_SCHEMAS.has(key) || value === null || typeof value !== 'object') {
      visit(value, path, false, depth + 1, found);
      continue;
    }
    const named = reachable && key === 'properties';
    for (const [name, child] of Object.entries(value)) visit(child, [...path, name], named, depth + 1, found);
  }
}

function declare(
  schema: Record<string, unknown>,
  path: readonly string[],
  reachable: boolean,
  found: HeaderParam[],
): void {
  if (!reachable || path.length === 0) refuse(path, 'not a property that "properties" alone lead to');
  const { [HEADER_ANNOTATION]: header, type } = schema;
  if (typeof header !== 'string' || !TOKEN.test(header)) refuse(path, 'the header name is no HTTP token');
  if (type !== 'string' && type !== 'integer' && type !== 'boolean') {
    refuse(path, 'only strings, integers and booleans have headers');
  }
  if (found.reduce((steps, other) => steps + other.path.length, path.length) > MAX_STEPS) {
    refuse(path, 'the parameters with headers are too many or too deep');
  }
  if (found.some((other) => other.header.toLowerCase() === header.toLowerCase())) {
    refuse(path, `the header name "${header.slice(0, MAX_SHOWN)}" is used twice`);
  }
  found.push({ header, path, type });
}

function refuse(path: readonly string[], reason: string): never {
  throw new InvalidDeclaration(`${path.join('.').slice(0, MAX_SHOWN) || 'the root'}: ${reason}`);
}
