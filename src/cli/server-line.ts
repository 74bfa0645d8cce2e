import { styleText } from 'node:util';
import { printable } from '../model/printable.ts';
import { isReady, type ServerState, type ServerStatus } from '../model/server-state.ts';
import { whyDown, withoutName } from '../model/why-down.ts';
import { cut, fitted } from './screen/display-width.ts';

/** One line for a server; `width` is that of the longest name, `columns` that of the terminal. */
export function serverLine(
  status: ServerStatus,
  width: number,
  now: number,
  columns = Number.POSITIVE_INFINITY,
): string {
  const name = fitted(status.name, width);
  const { paint, word, rest } = describe(status, now);
  const padded = word.padEnd(8);
  const head = width + padded.length + 8;
  return `    ${name}  ${styleText(paint, padded)}  ${cut(printable(rest).replaceAll('\n', ' '), columns - head)}`.trimEnd();
}

/** As in "3 of 18 ready, 42 tools". */
export function serversText(statuses: readonly ServerStatus[]): string {
  const ready = statuses.filter(isReady);
  const tools = ready.reduce((sum, status) => sum + status.toolCount, 0);
  const starting = statuses.filter(({ state }) => state === 'starting').length;
  return `${ready.length} of ${statuses.length} ready, ${tools} tools${starting === 0 ? '' : `, ${starting} starting`}`;
}

/** Whether a person may have to do something about it. */
export function needsAttention(status: ServerStatus): boolean {
  return WORDS[status.state] === undefined ? !isReady(status) : WORDS[status.state]![2] === true;
}

type Word = readonly ['gray' | 'cyan' | 'yellow' | 'red', string, boolean?];
const LAZY: Word = ['gray', 'lazy'];
/** Of servers that are not ready, in the colour of what has to be done; of all other states it is tried again. */
const WORDS: Readonly<Partial<Record<ServerState, Word>>> = {
  auth_required: ['yellow', 'login', true],
  misconfigured: ['red', 'misconfigured', true],
  defect: ['red', 'defect', true],
  suspended: ['gray', 'off'],
  unknown: LAZY,
  stopped: LAZY,
  disconnected: LAZY,
  starting: ['cyan', 'starting'],
  stopping: ['gray', 'stopping'],
};

interface Described {
  readonly paint: 'gray' | 'cyan' | 'yellow' | 'red' | 'green';
  readonly word: string;
  readonly rest: string;
}

function describe(status: ServerStatus, now: number): Described {
  const { name, state, toolCount, startedInMs, nextRetryAt, lastAttemptAt } = status;
  if (isReady(status)) {
    const time = startedInMs === null ? '' : `${(startedInMs / 1000).toFixed(2)} s`;
    return { paint: 'green', word: 'ready', rest: `${String(toolCount).padStart(3)} tools  ${time}` };
  }
  const reason = withoutName(status.reason ?? '', name);
  const said = WORDS[state];
  if (said === undefined) {
    const wait = nextRetryAt === null ? '' : `in ${duration(nextRetryAt - now)}: `;
    return { paint: 'red', word: 'retry', rest: `${wait}${whyDown(status)}` };
  }
  const [paint, word] = said;
  if (state === 'starting') {
    const limit = `, at most ${duration(status.startupTimeoutMs)}`;
    const ms = lastAttemptAt === null ? 0 : now - lastAttemptAt;
    return { paint, word, rest: `${duration(ms)}${ms < LONG_MS ? '' : limit}` };
  }
  if (state === 'defect') return { paint, word, rest: `${reason}; trunkline restart ${name} starts it again` };
  if (said !== LAZY || reason !== '') return { paint, word, rest: reason };
  const isLazy = status.definition?.start === 'lazy' || state !== 'unknown';
  return isLazy
    ? { paint, word, rest: 'starts with the first call' }
    : { paint, word: 'waiting', rest: 'for its start' };
}

/** A start of which a person wonders how long it may take. */
const LONG_MS = 5_000;

/** In seconds up to two minutes, so that a row changes seldom. */
function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
