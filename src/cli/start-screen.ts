import { styleText } from 'node:util';
import { type ServerState, type ServerStatus, UP } from '../model/server-state.ts';

export interface StartFacts {
  readonly version: string;
  readonly readyMs: number;
  readonly mcpUrl: string;
  readonly controlUrl: string;
  /** `0.0.0.0` or `::`, where it listens on all addresses of the machine; absent where it does not. */
  readonly onAllAddresses?: string | null;
  /** Configuration file as shown to the user, or the command line. */
  readonly source: string;
  readonly warnings: readonly string[];
  /** Only agents with a key are let in. */
  readonly needsKey?: boolean;
  /** Clients of this machine that `trunkline link` could point here; absent: none. */
  readonly clients?: readonly string[];
  /** What is wrong with single servers, each with its place and what to do. */
  readonly problems: readonly string[];
}

/** What is known the moment the gateway listens: identity and addresses. */
export function startHeader(facts: StartFacts): string {
  return [
    `${styleText('bold', `trunkline ${facts.version}`)}  ready in ${facts.readyMs} ms`,
    `  MCP      ${facts.mcpUrl}   ${styleText('gray', '(2024-11-05 to 2026-07-28)')}`,
    ...(facts.onAllAddresses == null ? [] : [`           on all addresses of this machine (${facts.onAllAddresses})`]),
    `  Control  ${facts.controlUrl}`,
    `  File     ${facts.source}`,
    ...linkLine(facts),
    ...facts.problems.map((problem) => `  ${styleText('red', 'Problem')}  ${problem}`),
    ...facts.warnings.map((warning) => `  ${styleText('yellow', 'Warning')}  ${warning}`),
    '',
  ].join('\n');
}

/** How the clients of this machine come here: at once, while servers are still starting. */
function linkLine({ clients = [], needsKey }: StartFacts): readonly string[] {
  if (clients.length === 0) return [];
  const key = needsKey === true ? ' --key <key of an agent>' : '';
  return [`  Link     trunkline link --all${key}   ${styleText('gray', `(${clients.join(', ')})`)}`];
}

/** One line per server, once it is known how it came up; `width` is that of the longest name. */
export function serverLine(status: ServerStatus, width: number, now: number): string {
  const name = status.name.padEnd(width);
  const { word, rest } = describe(status, now);
  return `    ${name}  ${word}  ${rest}`.trimEnd();
}

/** The closing lines, once every server has come up or failed. */
export function startSummary(
  statuses: readonly ServerStatus[],
  facts: Pick<StartFacts, 'mcpUrl' | 'needsKey'>,
): string {
  const ready = statuses.filter(isReady);
  const tools = ready.reduce((sum, status) => sum + status.toolCount, 0);
  const key = facts.needsKey === true ? ' --header "Authorization: Bearer <key of an agent>"' : '';
  return [
    `  Servers  ${ready.length} of ${statuses.length} ready, ${tools} tools`,
    `  Connect  claude mcp add -t http tl ${facts.mcpUrl}${key}`,
    '',
  ].join('\n');
}

export function isReady(status: ServerStatus): boolean {
  return UP.has(status.state);
}

/** Whether the server has come up with its lists, failed, or waits for its first call: nothing more to wait for at start. */
export function isSettled(status: ServerStatus): boolean {
  if (isReady(status)) return status.startedInMs !== null;
  return status.state !== 'unknown' ? status.state !== 'starting' : status.nextRetryAt !== null;
}

const LAZY = ['gray', 'lazy    '] as const;
/** Of servers that are not ready, in the colour of what has to be done; of all other states it is tried again. */
const WORDS: Readonly<Partial<Record<ServerState, readonly ['gray' | 'cyan' | 'yellow' | 'red', string]>>> = {
  auth_required: ['yellow', 'login   '],
  misconfigured: ['red', 'misconfigured'],
  defect: ['red', 'defect  '],
  suspended: ['gray', 'off     '],
  unknown: LAZY,
  stopped: LAZY,
  disconnected: LAZY,
  starting: ['cyan', 'starting'],
  stopping: ['gray', 'stopping'],
};

function describe(status: ServerStatus, now: number): { word: string; rest: string } {
  const { name, state, toolCount, startedInMs, nextRetryAt } = status;
  if (isReady(status)) {
    const seconds = startedInMs === null ? '' : `${(startedInMs / 1000).toFixed(2)} s`;
    return { word: styleText('green', 'ready   '), rest: `${String(toolCount).padStart(3)} tools  ${seconds}` };
  }
  const reason = status.reason ?? '';
  const said = WORDS[state];
  if (said === undefined) {
    const wait = nextRetryAt === null ? '' : `in ${Math.max(0, Math.round((nextRetryAt - now) / 1000))} s: `;
    return { word: styleText('red', 'retry   '), rest: `${wait}${reason}` };
  }
  const word = styleText(...said);
  if (state === 'defect') return { word, rest: `${reason}; trunkline restart ${name} starts it again` };
  return { word, rest: said === LAZY && reason === '' ? 'starts with the first call' : reason };
}
