import type { PinnedList, Severity } from '../../model/drift.ts';
import { isObject } from '../../model/json-object.ts';
import { HEADER_ANNOTATION } from '../../protocol/headers.ts';
import { sameValue, valueText } from './same-value.ts';

interface Judged {
  readonly severity: Severity;
  readonly reasons: readonly string[];
}

/** Larger definitions count as `breaking`: parsing and comparing them would cost too much. */
const MAX_BYTES = 64 * 1024;
/** Members that only people and models read. */
const WORDS: ReadonlySet<string> = new Set(['title', 'description', 'icons', '_meta']);

/**
 * `breaking`: a valid call may be refused, or a result may differ from the promise. `behaviour`: hints or optional arguments
 * differ. `wording`: only texts.
 */
export function judgeChange(list: PinnedList, before: Buffer, after: Buffer): Judged {
  if (list === 'instructions') return { severity: 'wording', reasons: ['the instructions differ'] };
  const [old, now] = [definitionOf(before), definitionOf(after)];
  if (old === null || now === null) {
    return { severity: 'breaking', reasons: ['the definition is too large, or no object, and cannot be judged'] };
  }
  const breaking = list === 'tools' ? brokenTool(old, now) : list === 'prompts' ? brokenPrompt(old, now) : [];
  const changed = [...new Set([...Object.keys(old), ...Object.keys(now)])].filter(
    (key) => !sameValue(old[key], now[key]),
  );
  const others = changed.filter((key) => !WORDS.has(key) && !(key.endsWith('Schema') && onlyWords(old[key], now[key])));
  const reasons = [...breaking, ...hints(old, now), ...changed.map((key) => `${key} differs`)];
  const severity = breaking.length > 0 ? 'breaking' : others.length > 0 ? 'behaviour' : 'wording';
  return { severity, reasons: reasons.slice(0, 40) };
}

function brokenTool(old: Fields, now: Fields): string[] {
  const reasons = [...narrowings(old['inputSchema'] ?? {}, now['inputSchema'] ?? {})];
  const [had, has] = [old['outputSchema'], now['outputSchema']];
  if (had !== undefined && has === undefined) reasons.push('the output schema was removed');
  // In the other direction: a result that is valid now must have been valid before.
  else if (had !== undefined && !onlyWords(had, has))
    reasons.push(...narrowings(has, had, 'result member').map((reason) => `output: ${reason}`));
  if (headersOf(old) !== headersOf(now)) reasons.push('parameters are mirrored into other headers');
  if (taskSupport(old) !== 'required' && taskSupport(now) === 'required')
    reasons.push('it must now be called as a task');
  return reasons;
}

function brokenPrompt(old: Fields, now: Fields): string[] {
  const [had, has] = [argumentsOf(old), argumentsOf(now)];
  const reasons: string[] = [];
  for (const [name, required] of has) {
    if (required && had.get(name) !== true) {
      reasons.push(`argument ${name} ${had.has(name) ? 'became required' : 'is new and required'}`);
    }
  }
  for (const name of had.keys()) if (!has.has(name)) reasons.push(`argument ${name} is gone`);
  return reasons;
}

const PROMISES = [
  ['readOnlyHint', true, 'only reads'],
  ['destructiveHint', false, 'destroys nothing'],
  ['idempotentHint', true, 'can be repeated'],
] as const;

/** The promises of a tool's annotations that it no longer makes; clients may rely on them. */
function hints(old: Fields, now: Fields): string[] {
  const [had, has] = [fieldsOf(old['annotations']), fieldsOf(now['annotations'])];
  const lost = PROMISES.filter(([hint, promise]) => had[hint] === promise && has[hint] !== promise);
  return lost.map(([, , words]) => `it no longer says that it ${words}`);
}

type Fields = Readonly<Record<string, unknown>>;

function definitionOf(bytes: Buffer): Fields | null {
  if (bytes.length > MAX_BYTES) return null;
  try {
    const value: unknown = JSON.parse(bytes.toString(), exactly);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** Keeps the digits of numbers that a double would round, so that they differ from the rounded number. */
function exactly(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || context?.source === undefined) return value;
  return Number.isSafeInteger(value) || context.source.length <= 16 ? value : { digits: context.source };
}

function argumentsOf(prompt: Fields): ReadonlyMap<string, boolean> {
  const list = Array.isArray(prompt['arguments']) ? prompt['arguments'] : [];
  return new Map(list.filter(isObject).map((one) => [String(one['name']), one['required'] === true]));
}

function taskSupport(tool: Fields): unknown {
  return fieldsOf(tool['execution'])['taskSupport'];
}

/** The parameters that stateless clients mirror into headers, by the definition that they were shown. */
function headersOf(tool: Fields): string {
  const declared: string[] = [];
  const walk = (value: unknown, at: string): void => {
    if (!isObject(value)) return;
    if (value[HEADER_ANNOTATION] !== undefined) declared.push(`${at} ${JSON.stringify(value[HEADER_ANNOTATION])}`);
    for (const [key, below] of Object.entries(value)) walk(below, `${at}/${key}`);
  };
  walk(tool['inputSchema'], '');
  return declared.sort().join('\n');
}

/** Whether two schemas accept the same values and differ only in words. */
function onlyWords(old: unknown, now: unknown): boolean {
  return (
    old !== undefined && now !== undefined && narrowings(old, now).length === 0 && narrowings(now, old).length === 0
  );
}

function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {};
}

/** A parsed schema. */
type Keywords = Readonly<Record<string, unknown>>;
type Schema = boolean | Keywords;

/** Schemas nested deeper cannot be compared. */
const MAX_DEPTH = 64;
const MAX_REASONS = 20;
/** Values compared for one pair of schemas in total: a nested value is compared once for each level above it. */
const MAX_COMPARED = 50_000;

/**
 * How a keyword is compared: it only describes (`silent`), has its own comparison (`own`), is a bound (`floor`, `ceiling`),
 * holds a schema (a wider one accepts more), holds schemas by name, or is a limit whose removal accepts more.
 */
type Role = 'silent' | 'own' | 'floor' | 'ceiling' | 'schema' | 'definitions' | 'limit';
const ROLES: ReadonlyMap<string, Role> = rolesOf({
  silent: 'title description default examples deprecated readOnly writeOnly $comment $schema $id',
  own: 'type enum const required properties additionalProperties',
  floor: 'minimum exclusiveMinimum minLength minItems minProperties',
  ceiling: 'maximum exclusiveMaximum maxLength maxItems maxProperties',
  schema: 'items contains propertyNames unevaluatedProperties',
  definitions: '$defs definitions',
  limit: 'pattern format multipleOf uniqueItems not dependentRequired',
});

function rolesOf(keywords: Readonly<Record<Role, string>>): ReadonlyMap<string, Role> {
  const roles = Object.keys(keywords) as Role[];
  return new Map(roles.flatMap((role) => keywords[role].split(' ').map((keyword) => [keyword, role] as const)));
}

/**
 * Why `after` may refuse what `before` accepts; empty if it cannot. Unknown keywords count as narrower. `what`: the word for a
 * member.
 */
function narrowings(before: unknown, after: unknown, what = 'argument'): readonly string[] {
  const comparison = new Comparison(what);
  comparison.compare(before, after, '', 0);
  return comparison.reasons;
}

class Comparison {
  readonly reasons: string[] = [];
  readonly #what: string;
  readonly #budget = { left: MAX_COMPARED };

  constructor(what: string) {
    this.#what = what;
  }

  compare(before: unknown, after: unknown, at: string, depth: number): void {
    if (this.reasons.length >= MAX_REASONS || sameValue(before, after, 0, this.#budget)) return;
    const [old, now] = [schemaOf(before), schemaOf(after)];
    if (now === true || old === false) return;
    if (old === null || now === null || now === false || depth >= MAX_DEPTH || this.#budget.left === 0) {
      this.#say(at, 'has a schema that cannot be compared');
      return;
    }
    const had = old === true ? {} : old;
    this.#types(had, now, at);
    this.#values(had, now, at);
    this.#members(had, now, at, depth);
    for (const key of new Set([...Object.keys(had), ...Object.keys(now)])) {
      const role = ROLES.get(key) ?? null;
      if (role !== 'silent' && role !== 'own') this.#keyword(key, role, had[key], now[key], at, depth);
    }
  }

  #types(old: Keywords, now: Keywords, at: string): void {
    const [had, has] = [typesOf(old['type']), typesOf(now['type'])];
    if (has === null) return;
    const taken = new Set(has);
    const lost =
      had === null ? ['any'] : had.filter((type) => !taken.has(type) && !(type === 'integer' && taken.has('number')));
    if (lost.length > 0)
      this.#say(at, `takes ${has.slice(0, 9).join(' or ')} and no longer ${lost.slice(0, 9).join(' or ')}`);
  }

  #values(old: Keywords, now: Keywords, at: string): void {
    const [had, has] = [valuesOf(old), valuesOf(now)];
    if (has === null) return;
    if (had === null) {
      this.#say(at, 'takes only some values now');
      return;
    }
    const lost = [...had].filter(([value]) => !has.has(value)).map(([, written]) => written);
    if (lost.length > 0) this.#say(at, `no longer takes ${lost.slice(0, 5).join(', ')}`);
  }

  #members(old: Keywords, now: Keywords, at: string, depth: number): void {
    const [had, has] = [mapOf(old['properties']), mapOf(now['properties'])];
    const needed = new Set(namesOf(old['required']));
    for (const name of namesOf(now['required'])) {
      if (needed.has(name)) continue;
      this.#say(join(at, name), had.has(name) ? 'became required' : 'is new and required');
    }
    const open = now['additionalProperties'] !== false;
    for (const [name, schema] of had) {
      if (has.has(name)) this.compare(schema, has.get(name), join(at, name), depth + 1);
      else this.#say(join(at, name), 'is gone');
    }
    if (!open && old['additionalProperties'] !== false) this.#say(at, 'no longer takes other members');
    else if (open)
      this.compare(old['additionalProperties'] ?? true, now['additionalProperties'] ?? true, join(at, '*'), depth + 1);
  }

  #keyword(key: string, role: Role | null, old: unknown, now: unknown, at: string, depth: number): void {
    if (sameValue(old, now, 0, this.#budget)) return;
    if (now === undefined && role !== null && role !== 'definitions') return;
    const numbers = typeof old === 'number' && typeof now === 'number';
    if (numbers && ((role === 'floor' && now <= old) || (role === 'ceiling' && now >= old))) return;
    if (role === 'schema') this.compare(old ?? true, now, join(at, key === 'items' ? '[]' : key), depth + 1);
    else if (role === 'definitions') this.#definitions(mapOf(old), mapOf(now), at, depth);
    else if (!this.#branches(key, old, now)) this.#say(at, `has a different ${key}`);
  }

  /** Compares the definitions that both versions have; ignores one that only one version has. */
  #definitions(old: ReadonlyMap<string, unknown>, now: ReadonlyMap<string, unknown>, at: string, depth: number): void {
    for (const [name, schema] of old)
      if (now.has(name)) this.compare(schema, now.get(name), join(at, `$${name}`), depth + 1);
  }

  /** Whether every alternative still exists; of `oneOf` no other may exist: a value that two alternatives accept is invalid. */
  #branches(key: string, old: unknown, now: unknown): boolean {
    if ((key !== 'anyOf' && key !== 'oneOf') || !Array.isArray(old) || !Array.isArray(now)) return false;
    const had = old.map((branch) => valueText(branch));
    const has = now.map((branch) => valueText(branch));
    if (key === 'oneOf') return sameValue(had.sort(), has.sort());
    const kept = new Set(has);
    return had.every((branch) => kept.has(branch));
  }

  #say(at: string, words: string): void {
    if (this.reasons.length < MAX_REASONS)
      this.reasons.push(at === '' ? `the whole ${words}` : `${this.#what} ${at} ${words}`);
  }
}

function schemaOf(value: unknown): Schema | null {
  return typeof value === 'boolean' || isObject(value) ? value : null;
}

function typesOf(type: unknown): readonly string[] | null {
  if (typeof type === 'string') return [type];
  return Array.isArray(type) ? type.map(String) : null;
}

/** The only values that the schema accepts, by their comparable text; null for any. */
function valuesOf(schema: Keywords): ReadonlyMap<string, string> | null {
  const listed = Array.isArray(schema['enum']) ? textsOf(schema['enum']) : null;
  if (!('const' in schema)) return listed;
  const only = textsOf([schema['const']]);
  return listed === null ? only : new Map([...only].filter(([text]) => listed.has(text)));
}

function textsOf(values: readonly unknown[]): ReadonlyMap<string, string> {
  return new Map(values.map((value) => [valueText(value), JSON.stringify(value).slice(0, 64)]));
}

function mapOf(value: unknown): ReadonlyMap<string, unknown> {
  return new Map(isObject(value) ? Object.entries(value) : []);
}

function namesOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : [];
}

function join(at: string, name: string): string {
  const shown = name.length > 64 ? `${name.slice(0, 64)}…` : name;
  return at === '' ? shown : `${at}.${shown}`;
}
