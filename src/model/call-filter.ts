import { CALL_OUTCOMES, type CallRecord } from './call-record.ts';

type Test = (call: CallRecord) => boolean;

const TEXTS: Readonly<Record<string, (call: CallRecord) => string | null>> = {
  server: (call) => call.server,
  tool: (call) => call.name,
  name: (call) => call.name,
  asked: (call) => call.asked ?? null,
  method: (call) => call.method,
  client: (call) => call.client,
  principal: (call) => call.principal,
  session: (call) => call.session,
  endpoint: (call) => call.endpoint,
  revision: (call) => call.revision,
  outcome: (call) => call.outcome,
  error: (call) => call.error,
  reason: (call) => call.reason,
  node: (call) => call.node,
  servedBy: (call) => call.servedBy,
  trace: (call) => call.trace,
  status: (call) => (call.error === null ? 'ok' : 'error'),
};

/** Keys that accept only these values. */
const VALUES: Readonly<Record<string, readonly string[]>> = { status: ['ok', 'error'], outcome: CALL_OUTCOMES };

const NUMBERS: Readonly<Record<string, (call: CallRecord) => number>> = {
  ms: (call) => call.ms,
  waited: (call) => call.waitedMs ?? 0,
  tries: (call) => call.tries,
  bytes: (call) => call.requestBytes + call.answerBytes,
};

export const CALL_FILTER_KEYS: readonly string[] = [...Object.keys(TEXTS), ...Object.keys(NUMBERS)];

/** One condition of a filter: an optional key with its operator, then a word or a quoted text, and the space after it. */
const CONDITION = /(-?)(?:([A-Za-z]+)(:|>=|<=|>|<|=))?(?:"([^"]*)"|([^\s"]+))\s*/y;

/** Each condition is tested for every kept call. */
const MAX_CONDITIONS = 50;

/** The filter cannot be parsed; the message says why. */
export class CallFilterError extends Error {}

/**
 * Parses a filter such as `server:github tool:create_* status:error ms>500 -client:codex timeout`. All conditions must hold.
 * `key:text` ignores case, and `*` matches any text; `client:` and `reason:` match a part of the value. Numbers take `>`,
 * `>=`, `<`, `<=` and `:`. A word without a key matches a part of server, name, asked, client, principal or reason; `-`
 * negates. Throws CallFilterError.
 */
export function callFilter(text: string): Test {
  const tests: Test[] = [];
  const words = text.trim();
  for (let at = 0; at < words.length; ) {
    CONDITION.lastIndex = at;
    const found = CONDITION.exec(words);
    if (found === null)
      throw new CallFilterError(`cannot read ${JSON.stringify(words.slice(at))}: a quotation mark is missing`);
    const [all, minus, key, operator, quoted, plain] = found;
    const value = quoted ?? plain ?? '';
    const test = key === undefined ? contains(value) : condition(key, operator!, value);
    if (tests.length === MAX_CONDITIONS)
      throw new CallFilterError(`a filter has at most ${MAX_CONDITIONS} conditions: leave some out`);
    tests.push(minus === '-' ? (call) => !test(call) : test);
    at += all.length;
  }
  return (call) => tests.every((test) => test(call));
}

function contains(word: string): Test {
  const sought = word.toLowerCase();
  return ({ server, name, asked, client, principal, reason }) =>
    [server, name, asked, client, principal, reason].some((one) => one?.toLowerCase().includes(sought) === true);
}

/** The member of this name; undefined for names that all objects have, such as `valueOf`. */
function ownMember<T>(members: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(members, name) ? members[name] : undefined;
}

function condition(key: string, operator: string, value: string): Test {
  const number = ownMember(NUMBERS, key);
  if (number !== undefined) return comparison(key, number, operator, value);
  const text = ownMember(TEXTS, key);
  if (text === undefined) {
    throw new CallFilterError(`there is no key ${JSON.stringify(key)}; the keys are ${CALL_FILTER_KEYS.join(', ')}`);
  }
  if (operator !== ':' && operator !== '=') throw new CallFilterError(`${key} is a text: write ${key}:${value}`);
  const values = ownMember(VALUES, key);
  if (
    values !== undefined &&
    !value.includes('*') &&
    !values.some((one) => one.toLowerCase() === value.toLowerCase())
  ) {
    throw new CallFilterError(`${key} is ${values.join(' or ')}, not ${JSON.stringify(value)}`);
  }
  const within = operator === ':' && (key === 'client' || key === 'reason');
  const parts = value.toLowerCase().split('*');
  if (within) {
    parts.push('');
    parts.unshift('');
  }
  return (call) => isLike((text(call) ?? '').toLowerCase(), parts);
}

/** Whether the text consists of these parts in this order with any text between them; needs one pass, without backtracking. */
function isLike(text: string, parts: readonly string[]): boolean {
  const first = parts[0]!;
  if (parts.length === 1) return text === first;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  const last = parts.at(-1)!;
  return text.length - last.length >= at && text.endsWith(last);
}

function comparison(key: string, read: (call: CallRecord) => number, operator: string, value: string): Test {
  const bound = Number(value);
  if (value.trim() === '' || !Number.isFinite(bound)) {
    throw new CallFilterError(`${key} is a number: write ${key}>500, not ${key}${operator}${value}`);
  }
  switch (operator) {
    case '>':
      return (call) => read(call) > bound;
    case '>=':
      return (call) => read(call) >= bound;
    case '<':
      return (call) => read(call) < bound;
    case '<=':
      return (call) => read(call) <= bound;
    default:
      return (call) => read(call) === bound;
  }
}
