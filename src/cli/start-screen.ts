import { styleText } from 'node:util';
import { type ServerStatus, UP } from '../model/server-state.ts';

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
    ...facts.problems.map((problem) => `  ${styleText('red', 'Problem')}  ${problem}`),
    ...facts.warnings.map((warning) => `  ${styleText('yellow', 'Warning')}  ${warning}`),
    '',
  ].join('\n');
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

function describe(status: ServerStatus, now: number): { word: string; rest: string } {
  if (isReady(status)) {
    const seconds = status.startedInMs === null ? '' : `${(status.startedInMs / 1000).toFixed(2)} s`;
    return { word: styleText('green', 'ready   '), rest: `${String(status.toolCount).padStart(3)} tools  ${seconds}` };
  }
  const reason = status.reason ?? '';
  switch (status.state) {
    case 'auth_required':
      return { word: styleText('yellow', 'login   '), rest: reason };
    case 'misconfigured':
      return { word: styleText('red', 'misconfigured'), rest: reason };
    case 'defect':
      return {
        word: styleText('red', 'defect  '),
        rest: `${reason}; trunkline restart ${status.name} starts it again`,
      };
    case 'suspended':
      return { word: styleText('gray', 'off     '), rest: reason };
    case 'unknown':
    case 'stopped':
    case 'disconnected':
      return { word: styleText('gray', 'lazy    '), rest: reason === '' ? 'starts with the first call' : reason };
    case 'starting':
      return { word: styleText('cyan', 'starting'), rest: reason };
    case 'stopping':
      return { word: styleText('gray', 'stopping'), rest: reason };
    default: {
      const wait =
        status.nextRetryAt === null ? '' : `in ${Math.max(0, Math.round((status.nextRetryAt - now) / 1000))} s: `;
      return { word: styleText('red', 'retry   '), rest: `${wait}${reason}` };
    }
  }
}
