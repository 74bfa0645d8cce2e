import type { Difference } from '../../model/recordings.ts';
import { type ExactJson, isExactObject, textOf } from './exact-json.ts';

type Place = Pick<Difference, 'path' | 'before' | 'after'>;

/** Paths whose values differ in every session, whatever the server does. */
export const VOLATILE: readonly string[] = [
  '$.result.task.taskId',
  '$.result.task.createdAt',
  '$.result.task.lastUpdatedAt',
  '$.result.taskId',
  '$.result.nextCursor',
  '$.result.requestState',
  '$.result.ttlMs',
  '$.result.cacheScope',
  "$.result._meta['io.modelcontextprotocol/related-task']",
  "$.result._meta['trunkline/error']",
  '$.result._meta.traceparent',
  '$.result._meta.tracestate',
  '$.error.data',
];

/**
 * Returns the paths at which two JSON values differ. Numbers are equal if their text is; the order of members does not matter;
 * list items that all have a name are compared by name. `ignored`: paths that do not count, with everything below them; `*`
 * matches any one step.
 */
export function differences(before: ExactJson, after: ExactJson, ignored: readonly string[]): readonly Place[] {
  const patterns = ignored.map(patternOf);
  const found: Place[] = [];
  compare(before, after, '$', (place) => {
    if (!patterns.some((pattern) => pattern.test(place.path))) found.push(place);
  });
  return found;
}

function compare(
  before: ExactJson | undefined,
  after: ExactJson | undefined,
  path: string,
  differs: (place: Place) => void,
): void {
  if (JSON.stringify(before) === JSON.stringify(after)) return;
  const [left, right] = [partsOf(before), partsOf(after)];
  if (left === null || right === null || Array.isArray(before) !== Array.isArray(after)) {
    differs({ path, before: written(before), after: written(after) });
    return;
  }
  // By name if all items of both sides have one.
  const named = left.named !== null && right.named !== null;
  const [all, others] = named ? [left.named!, right.named!] : [left.plain, right.plain];
  for (const [step, value] of all) compare(value, others.get(step), path + step, differs);
  for (const [step, value] of others) if (!all.has(step)) compare(undefined, value, path + step, differs);
}

interface Parts {
  readonly plain: ReadonlyMap<string, ExactJson>;
  readonly named: ReadonlyMap<string, ExactJson> | null;
}

/** Returns the members or items by their step in the path; null for other values. */
function partsOf(value: ExactJson | undefined): Parts | null {
  if (Array.isArray(value)) {
    const items = value as readonly ExactJson[];
    const named = new Map(items.map((item) => [nameOf(item), item]));
    const unique = items.length === named.size && !named.has('');
    return { plain: new Map(items.map((item, at) => [`[${at}]`, item])), named: unique ? named : null };
  }
  if (!isExactObject(value)) return null;
  const entries = Object.entries(value).flatMap(([name, member]) =>
    member === undefined ? [] : [[stepTo(name), member] as const],
  );
  return { plain: new Map(entries), named: null };
}

function nameOf(item: ExactJson): string {
  if (!isExactObject(item)) return '';
  const name = textOf(item['name']) ?? textOf(item['uri']) ?? textOf(item['uriTemplate']);
  return name === null ? '' : `[${JSON.stringify(name)}]`;
}

function stepTo(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? `.${name}` : `['${name}']`;
}

function written(value: ExactJson | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

/** Returns a pattern for a path such as `$.a[*].b` and everything below it. */
export function patternOf(path: string): RegExp {
  const escaped = path.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const step = String.raw`(?:\.[\w$]+|\[(?:\d+|"(?:[^"\\]|\\.)*"|'[^']*')\])`;
  const any = escaped.replaceAll('\\[\\*\\]', step).replaceAll('\\.\\*', step);
  return new RegExp(`^${any}(?=$|[.[])`);
}
