import type { PinnedList, Severity } from '../../model/drift.ts';
import { isObject, sameValue } from './same-value.ts';
import { narrowings } from './schema-narrowing.ts';

interface Judged {
  readonly severity: Severity;
  readonly reasons: readonly string[];
}

/** Larger definitions are not looked into: parsing and comparing them would cost too much. */
const MAX_BYTES = 64 * 1024;
/** Members that only people and models read. */
const WORDS: ReadonlySet<string> = new Set(['title', 'description', 'icons', '_meta']);
const PARAM_HEADER = 'x-mcp-header';

/**
 * `breaking`: a valid call may be refused, or a promised answer not come. `behaviour`: hints or optional arguments
 * differ. `wording`: only texts.
 */
export function judgeChange(list: PinnedList, before: Buffer, after: Buffer): Judged {
  if (list === 'instructions') return { severity: 'wording', reasons: ['the instructions are others'] };
  const [old, now] = [definitionOf(before), definitionOf(after)];
  if (old === null || now === null) {
    return { severity: 'breaking', reasons: ['the definition is too large, or no object, and cannot be judged'] };
  }
  const breaking = list === 'tools' ? brokenTool(old, now) : list === 'prompts' ? brokenPrompt(old, now) : [];
  const changed = [...new Set([...Object.keys(old), ...Object.keys(now)])].filter(
    (key) => !sameValue(old[key], now[key]),
  );
  const others = changed.filter((key) => !WORDS.has(key) && !(key.endsWith('Schema') && onlyWords(old[key], now[key])));
  const reasons = [...breaking, ...hints(old, now), ...changed.map((key) => `${key} is another`)];
  const severity = breaking.length > 0 ? 'breaking' : others.length > 0 ? 'behaviour' : 'wording';
  return { severity, reasons: reasons.slice(0, 40) };
}

function brokenTool(old: Fields, now: Fields): string[] {
  const reasons = [...narrowings(old['inputSchema'] ?? {}, now['inputSchema'] ?? {})];
  const [had, has] = [old['outputSchema'], now['outputSchema']];
  if (had !== undefined && has === undefined) reasons.push('there is no output schema any more');
  // The other way round: what comes out now has to be something that could come out before.
  else if (had !== undefined && !onlyWords(had, has))
    reasons.push(...narrowings(has, had, 'result member').map((reason) => `output: ${reason}`));
  if (headersOf(old) !== headersOf(now)) reasons.push('parameters are mirrored into other headers');
  if (taskSupport(old) !== 'required' && taskSupport(now) === 'required')
    reasons.push('it has to be called as a task now');
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

/** What a tool promises of itself and no longer does; those who believe it act on that. */
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

/** Numbers that a double would round stay apart from those they would be rounded to. */
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

/** Calls of stateless clients carry these parameters as headers, made from the definition that the client was shown. */
function headersOf(tool: Fields): string {
  const declared: string[] = [];
  const walk = (value: unknown, at: string): void => {
    if (!isObject(value)) return;
    if (value[PARAM_HEADER] !== undefined) declared.push(`${at} ${JSON.stringify(value[PARAM_HEADER])}`);
    for (const [key, below] of Object.entries(value)) walk(below, `${at}/${key}`);
  };
  walk(tool['inputSchema'], '');
  return declared.sort().join('\n');
}

/** Whether two schemas accept the same and differ in words alone. */
function onlyWords(old: unknown, now: unknown): boolean {
  return (
    old !== undefined && now !== undefined && narrowings(old, now).length === 0 && narrowings(now, old).length === 0
  );
}

function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {};
}
