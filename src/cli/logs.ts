import { styleText } from 'node:util';
import { readLog } from '../app/log-file.ts';
import { frameBelow } from '../app/process-logger.ts';
import { printable } from '../model/printable.ts';
import { ControlClient } from './access/control-client.ts';
import { findRunning, needRunning, notRunning, othersRunning } from './access/find-running.ts';
import { follow as streamed } from './access/follow.ts';
import { folderOfLoad } from './access/own-ports.ts';
import { type CommandInput, reportSilentNodes } from './command-input.ts';
import { CommandError, EXIT, type ExitCode, noSuch } from './exit-code.ts';
import { storedOptions } from './sources.ts';

export interface LogsInput extends CommandInput {
  readonly server: string | undefined;
  readonly follow: boolean;
  readonly lines: number;
}

/**
 * `trunkline logs [server] [-f]`: standard error and state changes of servers, at all nodes; without a server also the log of the
 * gateway. Following ends with Ctrl-C (exit code 0) or with the gateway (4).
 */
export async function logs(input: LogsInput): Promise<ExitCode> {
  const { terminal, flags, server, follow, lines } = input;
  const running = follow ? await needRunning(input) : await findRunning(input);
  if (running === null) return printStoredLogs(input);
  const client = new ControlClient(running);
  if (server !== undefined) await assertServerExists(client, server);
  const printEntry = (json: string): void =>
    terminal.out(flags.json === true ? `${json}\n` : `${logLine(JSON.parse(json) as ParsedLogLine)}\n`);
  const query = new URLSearchParams({ lines: String(lines), ...(server === undefined ? {} : { server }) });
  const answer = await client.get(`/api/v1/logs?${query}`);
  const listed = JSON.parse(answer) as { entries: ParsedLogLine[]; cursor: string; silent?: string[] };
  reportSilentNodes(input, listed);
  const { entries, cursor } = listed;
  for (const entry of entries) printEntry(JSON.stringify(entry));
  if (!follow) return EXIT.ok;
  query.set('after', cursor);
  return streamed(running, `/api/v1/logs/stream?${query}`, printEntry);
}

/** Without a running gateway: prints the end of the log file of the last one. The exit code is 4 nevertheless. */
async function printStoredLogs(input: LogsInput): Promise<ExitCode> {
  const { terminal, flags, server, lines } = input;
  const { path } = await folderOfLoad(input, await storedOptions(input));
  const left = readLog(path)
    .split('\n')
    .filter((line) => line !== '' && (server === undefined || line.includes(`"server":${JSON.stringify(server)}`)));
  const which = notRunning(input);
  if (left.length === 0)
    throw new CommandError(EXIT.unreachable, `${which}; start it with: trunkline${othersRunning(input)}`.trimEnd());
  terminal.err(`(${which}; the last one left this)\n`);
  for (const line of lines === 0 ? [] : left.slice(-lines))
    terminal.out(`${flags.json === true ? line : shownLine(line)}\n`);
  return EXIT.unreachable;
}

/** A line that a full disk or a loss of power cut is shown as it is. */
function shownLine(line: string): string {
  try {
    return logLine(JSON.parse(line) as ParsedLogLine);
  } catch {
    return printable(line);
  }
}

async function assertServerExists(client: ControlClient, server: string): Promise<void> {
  const { servers } = JSON.parse(await client.get('/api/v1/servers')) as { servers: { name: string }[] };
  const names = servers.map(({ name }) => name);
  if (!names.includes(server)) throw noSuch(`server "${server}"`, server, names);
}

/** One log entry of the control API. */
interface ParsedLogLine {
  readonly loggedBy?: string;
  readonly time?: string;
  readonly level?: string;
  readonly event?: string;
  readonly server?: string;
  readonly type?: string;
  readonly reason?: unknown;
  readonly [field: string]: unknown;
}

const PAINT: Readonly<Record<string, 'gray' | 'yellow' | 'red'>> = { info: 'gray', warn: 'yellow', error: 'red' };

/** For people: time, server, and its output after a bar, or the event. Escapes control characters. */
function logLine(entry: ParsedLogLine): string {
  if (entry.type === 'gap') return styleText('yellow', `… some lines are missing: ${shown(entry.reason)}`);
  const { loggedBy, time = '', level = 'info', event = '', server = '', ...fields } = entry;
  const of = server === '' ? styleText('bold', 'gateway') : shown(server);
  const head = `${styleText('gray', shown(time).slice(11, 23))} ${of}${loggedBy === undefined ? '' : ` at ${shown(loggedBy)}`}`;
  if (event === 'server_stderr') return `${head} | ${shown(fields['line'])}`;
  const { problem, ...rest } = fields;
  return (
    `${head} ${styleText(PAINT[level] ?? 'gray', shown(event))} ${said(event, rest)}`.trimEnd() + frameBelow(problem)
  );
}

function said(event: string, { before, state, reason, ...rest }: Record<string, unknown>): string {
  if (event === 'server_state') {
    return `${shown(before)} → ${shown(state)}${reason == null ? '' : `: ${shown(reason)}`}`;
  }
  const fields = { ...rest, ...(before == null ? {} : { before }), ...(state == null ? {} : { state }), reason };
  return Object.entries(fields)
    .filter(([, value]) => value != null && value !== '')
    .map(([key, value]) => `${shown(key)}=${shown(value)}`)
    .join(' ');
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return printable(text).replaceAll('\n', '\\n').replaceAll('\t', '\\t');
}
