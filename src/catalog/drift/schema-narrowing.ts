import { isObject, sameValue, valueText } from './same-value.ts';

/** A parsed schema. */
type Keywords = Readonly<Record<string, unknown>>;
type Schema = boolean | Keywords;

/** Schemas nested deeper are taken to differ. */
const MAX_DEPTH = 64;
const MAX_REASONS = 20;
/** Values compared for one pair of schemas, together: those at the bottom are compared once for each level above them. */
const MAX_COMPARED = 50_000;

/** Keywords that only describe. */
const SILENT: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  '$comment',
  '$schema',
  '$id',
]);
const JUDGED: ReadonlySet<string> = new Set([
  'type',
  'enum',
  'const',
  'required',
  'properties',
  'additionalProperties',
]);
const FLOORS: ReadonlySet<string> = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']);
const CEILINGS: ReadonlySet<string> = new Set([
  'maximum',
  'exclusiveMaximum',
  'maxLength',
  'maxItems',
  'maxProperties',
]);
/** Schemas in the place of which a wider one accepts more. */
const SUBSCHEMAS: ReadonlySet<string> = new Set(['items', 'contains', 'propertyNames', 'unevaluatedProperties']);
/** Schemas by name. */
const DEFINITIONS: ReadonlySet<string> = new Set(['$defs', 'definitions']);
/** Without them more is accepted, and nothing else is known of them. */
const LIMITING: ReadonlySet<string> = new Set([
  'pattern',
  'format',
  'multipleOf',
  'uniqueItems',
  'not',
  'dependentRequired',
]);

/**
 * Why `after` may refuse what `before` accepts; empty if it cannot. What it does not understand counts as narrower.
 * `what`: the word for a member.
 */
export function narrowings(before: unknown, after: unknown, what = 'argument'): readonly string[] {
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
      if (!SILENT.has(key) && !JUDGED.has(key)) this.#keyword(key, had[key], now[key], at, depth);
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
    if (!open && old['additionalProperties'] !== false) this.#say(at, 'takes nothing beyond what is listed any more');
    else if (open)
      this.compare(old['additionalProperties'] ?? true, now['additionalProperties'] ?? true, join(at, '*'), depth + 1);
  }

  #keyword(key: string, old: unknown, now: unknown, at: string, depth: number): void {
    if (sameValue(old, now, 0, this.#budget)) return;
    if (now === undefined && (LIMITING.has(key) || FLOORS.has(key) || CEILINGS.has(key) || SUBSCHEMAS.has(key))) return;
    if (FLOORS.has(key) && typeof old === 'number' && typeof now === 'number' && now <= old) return;
    if (CEILINGS.has(key) && typeof old === 'number' && typeof now === 'number' && now >= old) return;
    if (SUBSCHEMAS.has(key)) this.compare(old ?? true, now, join(at, key === 'items' ? '[]' : key), depth + 1);
    else if (DEFINITIONS.has(key)) this.#definitions(mapOf(old), mapOf(now), at, depth);
    else if ((key !== 'anyOf' && key !== 'oneOf') || !this.#branches(old, now)) this.#say(at, `has another ${key}`);
  }

  /** What is not referred to any more does no harm; what is, is held against its definition of the same name. */
  #definitions(old: ReadonlyMap<string, unknown>, now: ReadonlyMap<string, unknown>, at: string, depth: number): void {
    for (const [name, schema] of old)
      if (now.has(name)) this.compare(schema, now.get(name), join(at, `$${name}`), depth + 1);
  }

  /** Whether every alternative is still there, as it was. */
  #branches(old: unknown, now: unknown): boolean {
    if (!Array.isArray(old) || !Array.isArray(now)) return false;
    const has = new Set(now.map((branch) => valueText(branch)));
    return old.every((branch) => has.has(valueText(branch)));
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

/** The only values that are taken, by their comparable text; null for any. */
function valuesOf(schema: Keywords): ReadonlyMap<string, string> | null {
  const values = 'const' in schema ? [schema['const']] : schema['enum'];
  if (!Array.isArray(values)) return null;
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
