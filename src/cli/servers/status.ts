import { styleText } from 'node:util';
import type { RunningGateway } from '../../app/running.ts';
import type { WrittenValue } from '../../config/server/written-values.ts';
import { counted } from '../../model/counted.ts';
import type { DriftSummary } from '../../model/drift.ts';
import { printable } from '../../model/printable.ts';
import { RUN_TIME } from '../../model/server.ts';
import { isReady, PHASES, type Phase, type ServerState, type ServerStatus } from '../../model/server-state.ts';
import { ControlClient, serverPath } from '../access/control-client.ts';
import { gatewayFacts, othersRunning } from '../access/find-running.ts';
import { accessGateway, type GatewayAccess } from '../access/gateway-access.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode, noSuch } from '../exit-code.ts';
import { type ShownServer, serverLine } from '../server-line.ts';
import { isFileName } from '../sources.ts';

export interface StatusInput extends CommandInput {
  /** A configuration file if that file exists, else the name of a server. */
  readonly word: string | undefined;
}

/**
 * `trunkline status [server]`: the servers with state, tools and needed actions, or the details of one. Starts nothing. Exit
 * code 4 if no gateway runs, a server is neither ready nor at rest, or a change is not in force.
 */
export async function status(input: StatusInput): Promise<ExitCode> {
  const { terminal, flags, word } = input;
  const isFile = word !== undefined && isFileName(terminal.cwd, word);
  const gateway = await accessGateway(isFile ? { ...input, file: word } : input, null);
  try {
    const statuses = await gateway.statuses();
    if (word !== undefined && !isFile) {
      const one = statuses.find(({ name }) => name === word);
      const names = statuses.map(({ name }) => name);
      if (one === undefined) throw noSuch(`server "${word}", and no file of that name`, word, names);
      const values = gateway.running === null ? [] : await writtenValues(gateway.running, word);
      print(input, one, () => serverPage(one, Date.now()) + configuration(values));
      return exitOf(gateway, [one]);
    }
    const { running } = gateway;
    const facts = await gateway.facts();
    if (flags.json === true) {
      const { configProblem, desiredProblems } = facts;
      const shown = { gateway: running && gatewayFacts(running), configProblem, desiredProblems, servers: statuses };
      terminal.out(`${JSON.stringify(shown)}\n`);
    } else {
      terminal.out(await overview(gateway, statuses, facts));
      if (running === null) terminal.err(othersRunning(input));
    }
    return facts.configProblem === null ? exitOf(gateway, statuses) : EXIT.unreachable;
  } finally {
    await gateway.close();
  }
}

async function writtenValues(running: RunningGateway, server: string): Promise<readonly WrittenValue[]> {
  const path = `${serverPath(server)}/configuration`;
  return (JSON.parse(await new ControlClient(running).get(path)) as { readonly values: readonly WrittenValue[] })
    .values;
}

/** The values in the definition, each with its line. Omits defaults. */
function configuration(values: readonly WrittenValue[]): string {
  const written = values.filter(({ file }) => file !== null);
  const width = Math.max(0, ...written.map(({ key }) => key.length));
  const place = ({ file, line }: WrittenValue): string => (file === RUN_TIME ? 'added at run time' : `${file}:${line}`);
  const lines = written.map((one) => `    ${one.key.padEnd(width)}  ${one.value}  ${place(one)}`);
  return lines.length === 0 ? '' : `  Configuration\n${lines.map((line) => `${printable(line)}\n`).join('')}`;
}

/** Healthy states of a server that does not run: it starts with its first call, or was stopped or suspended. */
const AT_REST: ReadonlySet<ServerState> = new Set(['unknown', 'stopped', 'disconnected', 'suspended']);

function exitOf({ running }: GatewayAccess, statuses: readonly ShownServer[]): ExitCode {
  const isFine = (one: ShownServer) => (isReady(one) || AT_REST.has(one.state)) && one.desired?.refused == null;
  const fine = statuses.every(isFine);
  return running !== null && fine ? EXIT.ok : EXIT.unreachable;
}

async function overview(
  gateway: GatewayAccess,
  statuses: readonly ShownServer[],
  { conditions = [], configProblem, desiredProblems, processes }: Awaited<ReturnType<GatewayAccess['facts']>>,
): Promise<string> {
  const warnings = await gateway.warnings();
  const own = conditions.filter(({ name, server }) => server === null && name !== 'configuration_unreadable');
  const width = Math.max(0, ...statuses.map(({ name }) => name.length));
  const ready =
    gateway.running !== null
      ? `${statuses.filter(isReady).length} of ${statuses.length} servers ready`
      : counted(statuses.length, 'server');
  const lines = statuses.map((one) => {
    const running = one.processes == null ? '' : `  ${processText(one.processes)}`;
    return `${serverLine(one, width, Date.now())}${running}\n`;
  });
  const refused = `${styleText('red', 'Problems of the configuration, not in force:')}\n${configProblem}\n`;
  const running = gateway.running !== null ? `, ${processText(processes)}` : '; start it with: trunkline';
  return [
    `${ready} (${gateway.label})${running}\n`,
    ...lines,
    driftLine(statuses),
    configProblem === null ? '' : refused,
    warnings === 0 ? '' : `${counted(warnings, 'warning')} of the configuration: trunkline check\n`,
    ...(gateway.running === null ? [] : ['console: trunkline console prints a link that logs in\n']),
    ...[...desiredProblems, ...own.map(({ reason }) => reason)].map(
      (problem) => `  ${styleText('yellow', 'Warning')}  ${problem}\n`,
    ),
  ].join('');
}

/** Only the statuses of a running gateway have `drift`. */
function driftLine(statuses: readonly (ServerStatus & { readonly drift?: DriftSummary })[]): string {
  const waiting = statuses.reduce((sum, { drift }) => sum + (drift?.waiting ?? 0), 0);
  if (waiting === 0) return '';
  return `${waiting} ${waiting === 1 ? 'definition is' : 'definitions are'} not as approved: trunkline drift\n`;
}

const SHOWN_TAIL_LINES = 20;
const PHASE_WORDS: Readonly<Record<Phase, string>> = { dns: 'DNS', tcp: 'TCP', tls: 'TLS', firstByte: 'first byte' };

/** The details of one server, for people. Escapes texts of servers, which could otherwise control the terminal. */
function serverPage(status: ShownServer, now: number): string {
  const parts = [
    serverLine(status, status.name.length, now).trimStart(),
    ...field('Where', status.endpoint ?? status.sshHost ?? status.containerId ?? 'a process of this machine'),
    ...field('Speaks', status.revision === null ? null : `${status.revision} (${status.era})`),
    ...field(
      'Lists',
      status.era === null ? null : `${counted(status.toolCount, 'tool')}, as it listed them last to any client`,
    ),
    ...field('Health', status.health),
    ...field('Reason', status.reason),
    ...field('Attempts', attempts(status, now)),
    ...field('Start limit', `${status.startupTimeoutMs / 1000} s`),
    ...field('Time', status.phases?.summary ?? null),
    ...phases(status),
    ...field('Runs', status.processes == null ? null : processText(status.processes)),
    ...pool(status),
    ...replicas(status),
    ...launchFailure(status),
    ...history(status),
    ...tail('Standard error', status.stderrTail),
  ];
  return `${parts.join('\n')}\n`;
}

/** Text such as "16 of 16 processes". */
function processText({ running, limit }: NonNullable<ServerStatus['processes']>): string {
  return `${running} of ${limit} processes`;
}

function field(name: string, text: string | null): string[] {
  return text === null || text === '' ? [] : [`  ${name.padEnd(9)} ${printable(text).replaceAll('\n', ' ')}`];
}

function attempts(status: ServerStatus, now: number): string | null {
  const { consecutiveFailures: failures, restarts, lastAttemptAt, nextRetryAt } = status;
  const last = lastAttemptAt === null ? null : `last ${instant(lastAttemptAt)}`;
  const next = nextRetryAt === null ? null : `next in ${Math.max(0, Math.round((nextRetryAt - now) / 1000))} s`;
  const counted = [
    failures === 0 ? null : `${failures} failed in a row`,
    restarts === 0 ? null : `${restarts} restarts`,
  ];
  return [...counted, last, next].filter((part) => part !== null).join(', ');
}

function phases({ phases: figures }: ServerStatus): string[] {
  if (figures === null) return [];
  return PHASES.flatMap((phase) => {
    const of = figures[phase];
    if (of === null) return [];
    return [
      `${' '.repeat(12)}${PHASE_WORDS[phase].padEnd(10)} ${of.p50Ms} ms, p95 ${of.p95Ms} ms, last ${of.lastMs} ms`,
    ];
  });
}

function pool({ pool: by, connections }: ServerStatus): string[] {
  const lines = connections.map((one) => {
    const pid = one.pid === null ? '' : `  pid ${one.pid}`;
    const errors =
      one.errors === 0 ? '' : `, ${one.errors} failed${one.lastError === null ? '' : `: ${one.lastError}`}`;
    return `    ${printable(`${one.key}  ${one.state}${pid}  ${one.requests} requests${errors}`)}`;
  });
  const states = `${by.active} active, ${by.idle} idle, ${by.closed} closing`;
  return connections.length === 0 ? [] : [...field('Sessions', states), ...lines];
}

function replicas({ replicas: all }: ServerStatus): string[] {
  if (all.length === 0) return [];
  const lines = all.map(({ replica, state, pid, inFlight, bound, reason }) => {
    const where = pid === null ? '' : `  pid ${pid}`;
    const why = reason === null ? '' : `  ${reason}`;
    return `    ${printable(`${replica}  ${state}${where}  ${inFlight} in flight, ${bound} bound${why}`)}`;
  });
  return [...field('Replicas', `${all.length}`), ...lines];
}

function launchFailure({ lastLaunchFailure: failed }: ServerStatus): string[] {
  if (failed === null) return [];
  const { exit } = failed;
  const ended = exit === null ? null : exit.signal === null ? `exit code ${exit.code}` : `ended by ${exit.signal}`;
  const command = failed.command === null ? null : [failed.command, ...failed.arguments].join(' ');
  return [
    `  ${styleText('red', 'The last start failed')} ${instant(failed.at)}`,
    ...field('  error', failed.error),
    ...field('  cause', failed.likelyCause),
    ...field('  command', command),
    ...field('  variables', failed.environment.join(', ')),
    ...field('  missing', failed.missingVariables.join(', ')),
    ...field('  container', failed.inContainer ? 'the gateway runs in one' : null),
    ...field('  ended', ended),
    ...tail('  wrote', failed.stderrTail),
  ];
}

function history({ history: changes }: ServerStatus): string[] {
  const lines = changes.map(({ at, from, to, reason, failure }, i) => {
    const known = reason === null || reason === changes[i - 1]?.reason;
    const why = known ? '' : `: ${printable(reason).replaceAll('\n', ' ')}`;
    return `    ${instant(at)}  ${from} → ${to}${failure === null ? '' : ` (${failure})`}${why}`;
  });
  return lines.length === 0 ? [] : ['  History', ...lines];
}

function tail(name: string, text: string): string[] {
  const lines = printable(text).trimEnd().split('\n').slice(-SHOWN_TAIL_LINES);
  return lines.length === 1 && lines[0] === '' ? [] : [`  ${name}`, ...lines.map((line) => `    | ${line}`)];
}

function instant(wallMs: number): string {
  return `${new Date(wallMs).toISOString().slice(0, 19).replace('T', ' ')}Z`;
}
