import type { Difference } from '../../model/recordings.ts';
import { type ExactJson, isExactObject, textOf } from './exact-json.ts';

type Place = Pick<Difference, 'path' | 'before' | 'after'>;

/** What the protocol makes new in every session: it says nothing of a server. */
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
 * Where two JSON values differ, as paths. Numbers are the same where they are written the same; the order of members does
 * not matter, and items of lists that all have a name are compared by it. `ignored`: paths that do not count, with all that
 * is within them; `*` takes the place of any one step.
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
  // Named items where both sides have nothing else.
  const named = left.named !== null && right.named !== null;
  const [all, others] = named ? [left.named!, right.named!] : [left.plain, right.plain];
  for (const [step, value] of all) compare(value, others.get(step), path + step, differs);
  for (const [step, value] of others) if (!all.has(step)) compare(undefined, value, path + step, differs);
}

interface Parts {
  readonly plain: ReadonlyMap<string, ExactJson>;
  readonly named: ReadonlyMap<string, ExactJson> | null;
}

/** The members or items by the step of the path that leads to each; null for what has none. */
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

/** `$.a[*].b` and all within it. */
export function patternOf(path: string): RegExp {
  const escaped = path.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const step = String.raw`(?:\.[\w$]+|\[(?:\d+|"(?:[^"\\]|\\.)*"|'[^']*')\])`;
  const any = escaped.replaceAll('\\[\\*\\]', step).replaceAll('\\.\\*', step);
  return new RegExp(`^${any}(?=$|[.[])`);
}
