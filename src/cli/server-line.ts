import { styleText } from 'node:util';
import { counted } from '../model/counted.ts';
import { printable } from '../model/printable.ts';
import { isReady, type ServerState, type ServerStatus, UP } from '../model/server-state.ts';
import { whyDown, withoutName } from '../model/why-down.ts';
import { CommandError, EXIT, usage } from './exit-code.ts';
import { padOrTruncate, truncate } from './screen/display-width.ts';

/** What `trunkline status` shows of a server. Gateways of earlier versions omit `desired`. */
export type ShownServer = ServerStatus & {
  readonly desired?: { readonly suspended?: boolean; readonly refused?: string | null } | null;
};

/** The line of one server; `width` is that of the longest name, `columns` that of the terminal. */
export function serverLine(
  status: ShownServer,
  width: number,
  now: number,
  columns = Number.POSITIVE_INFINITY,
): string {
  const name = padOrTruncate(status.name, width);
  const { paint, word, rest } = withRefusal(describe(status, now), status);
  const padded = word.padEnd(8);
  const head = width + padded.length + 8;
  return `    ${name}  ${styleText(paint, padded)}  ${truncate(printable(rest).replaceAll('\n', ' '), columns - head)}`.trimEnd();
}

/** As in "3 of 18 ready, 42 tools". */
export function serversText(statuses: readonly ServerStatus[]): string {
  const ready = statuses.filter(isReady);
  const tools = ready.reduce((sum, status) => sum + status.toolCount, 0);
  const starting = statuses.filter(({ state }) => state === 'starting').length;
  return `${ready.length} of ${statuses.length} ready, ${counted(tools, 'tool')}${starting === 0 ? '' : `, ${starting} starting`}`;
}

/** Whether the server may need an action of the user. */
export function needsAttention(status: ServerStatus): boolean {
  return WORDS[status.state] === undefined ? !isReady(status) : WORDS[status.state]![2] === true;
}

type Word = readonly ['gray' | 'cyan' | 'yellow' | 'red', string, boolean?];
const STOPPED: Word = ['gray', 'stopped'];
/** Colour, word and need for attention of states that are not ready. The gateway retries servers in any other state. */
const WORDS: Readonly<Partial<Record<ServerState, Word>>> = {
  auth_required: ['yellow', 'login', true],
  misconfigured: ['red', 'misconfigured', true],
  defect: ['red', 'defect', true],
  suspended: ['gray', 'off'],
  unknown: ['gray', 'lazy'],
  stopped: STOPPED,
  disconnected: STOPPED,
  starting: ['cyan', 'starting'],
  stopping: ['gray', 'stopping'],
};

interface Described {
  readonly paint: 'gray' | 'cyan' | 'yellow' | 'red' | 'green';
  readonly word: string;
  readonly rest: string;
}

function withRefusal(described: Described, { desired }: ShownServer): Described {
  if (desired?.refused == null) return described;
  const rest = `${described.rest}  runs an earlier definition; the new one has a mistake: ${desired.refused}`;
  return { ...described, paint: described.paint === 'red' ? 'red' : 'yellow', rest: rest.trimStart() };
}

function describe(status: ShownServer, now: number): Described {
  const { name, state, toolCount, startedInMs, nextRetryAt, lastAttemptAt } = status;
  if (isReady(status)) {
    const time = startedInMs === null ? '' : `${(startedInMs / 1000).toFixed(2)} s`;
    return {
      paint: 'green',
      word: 'ready',
      rest: `${String(toolCount).padStart(3)} ${toolCount === 1 ? 'tool ' : 'tools'}  ${time}`,
    };
  }
  const reason = reasonText(status);
  const said = WORDS[state];
  if (said === undefined) {
    const wait = nextRetryAt === null ? '' : `in ${duration(nextRetryAt - now)}: `;
    return { paint: 'red', word: 'retry', rest: wait + reason };
  }
  const [paint, word] = said;
  if (state === 'starting') {
    const limit = `, at most ${duration(status.startupTimeoutMs)}`;
    const ms = lastAttemptAt === null ? 0 : now - lastAttemptAt;
    const line = reason === '' ? lastLine(status.stderrTail) : '';
    return { paint, word, rest: `${duration(ms)}${ms < LONG_MS ? '' : limit}  ${line}` };
  }
  const again = `trunkline restart ${name} starts it again`;
  if (said === STOPPED) return { paint, word, rest: again };
  if (state === 'defect') return { paint, word, rest: `${reason}; ${again}` };
  if (state !== 'unknown' || reason !== '') return { paint, word, rest: reason };
  return status.definition?.start === 'lazy'
    ? { paint, word, rest: 'starts with the first call' }
    : { paint, word: 'waiting', rest: 'for its start' };
}

/** Why a server is not ready, with the remedy if one is known; empty without a reason. */
export function reasonText(status: ShownServer): string {
  const { name, state, desired, reason } = status;
  if (state === 'suspended' && desired != null)
    return desired.suspended === true ? `suspended; trunkline resume ${name}` : 'disabled by its definition';
  return WORDS[state] === undefined ? whyDown(status) : withoutName(reason ?? '', name);
}

const MAX_LINE = 160;
/** From this duration on, the line of a starting server also shows the limit of the start. */
const LONG_MS = 5_000;

/** The last line of what a server wrote, cut so that it fits into a row. */
function lastLine(text: string): string {
  return text.trimEnd().split('\n').at(-1)!.trim().slice(0, MAX_LINE);
}

/** In seconds below two minutes, in minutes from there on, so that a row changes seldom. */
function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

/** The server may have the wanted tools but lists none, so the error says why. */
export function unlisted(status: ShownServer): CommandError {
  const { name, state, reason } = status;
  const why = reason === null && state !== 'suspended' ? `it is ${state}` : reasonText(status);
  if (state === 'auth_required') return new CommandError(EXIT.authRequired, `${name} requires a login: ${why}`);
  if (UP.has(state)) return usage(`${name} has no tools`);
  return new CommandError(EXIT.unreachable, `the server ${name} cannot be called: ${why}`);
}
