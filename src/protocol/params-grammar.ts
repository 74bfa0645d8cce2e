import { duplicateKey, entries } from './fields.ts';
import { validString, validValue } from './grammar.ts';
import { confusableKeyMessage, KnownNames } from './known-names.ts';
import {
  CLIENT_CAPABILITIES_KEY,
  CLIENT_INFO_KEY,
  LOG_LEVEL_KEY,
  PROTOCOL_VERSION_KEY,
  RELATED_TASK_KEY,
  SERVER_INFO_KEY,
  SUBSCRIPTION_ID_KEY,
} from './meta-keys.ts';
import { skipSpace } from './skip.ts';

/** The members of an object that affect the gateway's decisions, and those of them that are such objects themselves. */
interface Decisive {
  readonly names: KnownNames;
  readonly nested: readonly (Decisive | undefined)[];
}

const NAME = 0;
const ARGUMENTS = 1;
const PARAMS = decisive(
  ['name', 'arguments', 'uri', 'cursor', 'task', 'taskId', 'requestId', 'progressToken', 'level'].concat([
    'inputResponses',
    'requestState',
  ]),
  {
    _meta: decisive(
      [PROTOCOL_VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY, SERVER_INFO_KEY].concat([
        SUBSCRIPTION_ID_KEY,
        'progressToken',
      ]),
      { [RELATED_TASK_KEY]: decisive(['taskId']) },
    ),
    ref: decisive(['type', 'name', 'uri']),
    notifications: decisive(
      ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged'].concat(['resourceSubscriptions', 'taskIds']),
    ),
  },
);

/** Findings in the `params` that were validated last. */
export const lastParams = {
  /** Why the gateway and a server could decide by different members; empty if they could not. */
  fault: '',
  /** The first bytes of the values of `name` and `arguments`; 0 for an absent member. */
  name: 0,
  arguments: 0,
};

/** Validates `params` and finds repeated and confusable keys, of which gateway and server could read different ones. */
export function validParams(bytes: Buffer, start: number): number {
  lastParams.fault = '';
  lastParams.name = 0;
  lastParams.arguments = 0;
  return validMembers(bytes, start, 2, PARAMS);
}

/** As `validParams`, for `params` that were not validated: why clients could read another member than the gateway, or empty. */
export function confusedParams(bytes: Buffer, start: number, end: number, { names, nested } = PARAMS): string {
  for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(bytes, start, end)) {
    const found = names.find(bytes, keyStart, keyEnd);
    if (found < -1) return confusableKeyMessage(bytes, keyStart, keyEnd, names.nameOf(found));
    const inner = nested[found];
    const fault = inner === undefined ? '' : confusedParams(bytes, valueStart, valueEnd, inner);
    if (fault !== '') return fault;
  }
  return '';
}

function validMembers(bytes: Buffer, start: number, level: number, { names, nested }: Decisive): number {
  // Two keys with equal signatures may be the same; then the slow comparison decides. The mask has 32 signatures.
  let signatures = 0;
  let suspicious = false;
  let at = skipSpace(bytes, start + 1);
  if (bytes[at] === 0x7d) return at + 1;
  for (;;) {
    const keyStart = skipSpace(bytes, at);
    if (bytes[keyStart] !== 0x22) return -1;
    const keyEnd = validString(bytes, keyStart);
    if (keyEnd < 0) return -1;
    at = skipSpace(bytes, keyEnd);
    if (bytes[at] !== 0x3a) return -1;
    const signature = 1 << ((bytes[keyStart + 1]! ^ (keyEnd - keyStart)) & 31);
    // An escape in a key can hide its name.
    if ((signatures & signature) !== 0 || hasEscape(bytes, keyStart, keyEnd)) suspicious = true;
    signatures |= signature;
    const found = names.find(bytes, keyStart, keyEnd);
    if (found < -1) lastParams.fault ||= confusableKeyMessage(bytes, keyStart, keyEnd, names.nameOf(found));
    const value = skipSpace(bytes, at + 1);
    if (names === PARAMS.names) {
      if (found === NAME) lastParams.name = bytes[value] ?? 0;
      else if (found === ARGUMENTS) lastParams.arguments = bytes[value] ?? 0;
    }
    const inner = bytes[value] === 0x7b ? nested[found] : undefined;
    at = inner === undefined ? validValue(bytes, value, level) : validMembers(bytes, value, level + 1, inner);
    if (at < 0) return -1;
    at = skipSpace(bytes, at);
    if (bytes[at] === 0x2c) at++;
    else if (bytes[at] === 0x7d) break;
    else return -1;
  }
  at++;
  const twice = suspicious ? duplicateKey(bytes, start, at) : null;
  if (twice !== null) lastParams.fault ||= `"${twice}" appears twice`;
  return at;
}

function hasEscape(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] === 0x5c) return true;
  return false;
}

function decisive(plain: readonly string[], nested: Readonly<Record<string, Decisive>> = {}): Decisive {
  const names = [...plain, ...Object.keys(nested)];
  return { names: new KnownNames(names), nested: names.map((name) => nested[name]) };
}
