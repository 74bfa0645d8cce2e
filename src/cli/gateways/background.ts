import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Command, CommanderError } from 'commander';
import { gatewayFolder } from '../../app/gateway-folders.ts';
import { LOG_FILE } from '../../app/log-file.ts';
import { hasStoredServers, type RunningGateway, runningGateway, runningGateways } from '../../app/running.ts';
import { portOf } from '../../model/host-address.ts';
import { ControlClient } from '../access/control-client.ts';
import { findRunning, gatewayFacts, gatewayName, needRunning } from '../access/find-running.ts';
import { folderOfLoad } from '../access/own-ports.ts';
import { type CommandInput, print } from '../command-input.ts';
import { CommandError, cannotOpen, EXIT, type ExitCode, usage } from '../exit-code.ts';
import { GATEWAY_OPTIONS, type GatewayFlags, VARIABLE_OPTION } from '../flags.ts';
import { inheritFlags } from '../inherit-flags.ts';
import { loadOptions } from '../sources.ts';

/** Limit for reading the files and reaching a cluster and database. */
const START_MS = 60_000;
/** A drain takes at most half a minute; this adds a margin. */
const GONE_MS = 60_000;
const ANSWER_MS = 10_000;
const POLL_MS = 50;
/** Output of the process besides its log: why it did not start, or how it crashed. */
const OUTPUT = 'background.out';

/**
 * `trunkline start --background`: resolves when the gateway listens. Leaves a running gateway as it is; it is an error if that
 * one has other ports than the requested ones.
 */
export async function startInBackground(input: CommandInput): Promise<ExitCode> {
  const running = await findRunning(input);
  if (running !== null) {
    checkPorts(input, running);
    print(input, { started: false, ...gatewayFacts(running) }, () => `${runs(running)} already\n`);
    return EXIT.ok;
  }
  const load = loadOptions(input, hasStoredServers(input.flags.dataDir, input.terminal));
  const { path } = await folderOfLoad(input, load);
  const [file] = load.files ?? [];
  const started = await launch(input, path, wordsOf(input, file));
  await printStarted(input, started, 'started');
  return EXIT.ok;
}

/** `trunkline stop`: asks the gateway to stop and waits for its end. Sends no signal, since another process may have its pid. */
export async function stop(input: CommandInput & { readonly now: boolean }): Promise<ExitCode> {
  const running = await needRunning(input);
  await end(running, input.now);
  print(input, { stopped: gatewayFacts(running) }, () => `stopped the gateway ${gatewayName(running)}\n`);
  return EXIT.ok;
}

/** `trunkline restart` without a server: restarts the gateway with the words that it was started with. */
export async function restartGateway(input: CommandInput): Promise<ExitCode> {
  const running = await needRunning(input);
  const { words, cwd, pid } = running.instance;
  if (words == null || cwd === undefined) {
    const where = `the gateway ${gatewayName(running)} (pid ${pid}) was not started in the background`;
    const how = 'restart it where it runs, or: trunkline stop && trunkline start --background';
    throw usage(`${where}; ${how}; one server: trunkline restart <server>`);
  }
  const next = { ...input, terminal: { ...input.terminal, cwd, ask: null } };
  await checkWords(input, next, running.instance).catch((error: unknown) => {
    if (!(error instanceof CommandError) && !(error instanceof CommanderError)) throw error;
    const left = `the gateway ${gatewayName(running)} (pid ${pid}) was left as it is: it would not start again`;
    throw usage(`${left}\n${error.message}`, { cause: error });
  });
  await end(running, false);
  const started = await launch(next, running.dataDir, words);
  await printStarted(input, started, 'restarted');
  return EXIT.ok;
}

/** `trunkline gateways`: the running gateways of this user. */
export async function gateways(input: CommandInput): Promise<ExitCode> {
  const all = runningGateways(input.terminal.env);
  // Where several run here, commands need --config or --data-dir: none of them has the mark.
  const here = await findRunning(input).catch((error: unknown) => {
    if (error instanceof CommandError) return null;
    throw error;
  });
  const facts = all.map((one) => ({ ...gatewayFacts(one), here: one.dataDir === here?.dataDir }));
  const line = (one: RunningGateway): string => {
    const { instance, dataDir } = one;
    const where = instance.words == null ? '' : ', in the background';
    const since = new Date(instance.startedAt).toISOString().slice(0, 16).replace('T', ' ');
    const mark = dataDir === here?.dataDir ? '*' : ' ';
    return `${mark} ${gatewayName(one).slice('at '.length)}\n    pid ${instance.pid}${where}, since ${since}Z, ${dataDir}\n`;
  };
  print(input, { gateways: facts }, () => (all.length === 0 ? 'no gateway runs\n' : all.map(line).join('')));
  return EXIT.ok;
}

function checkPorts({ flags }: CommandInput, running: RunningGateway): void {
  const { mcpUrl, controlUrl } = running.instance;
  for (const [asked, url] of [
    [flags.port, mcpUrl],
    [flags.controlPort, controlUrl],
  ] as const) {
    if (asked === undefined || asked === 0) continue;
    const has = portOf(new URL(url));
    if (has !== asked)
      throw usage(`${runs(running)} already, on ${has} and not ${asked}; stop it first: trunkline stop`);
  }
}

function runs(running: RunningGateway): string {
  return `the gateway ${gatewayName(running)} (pid ${running.instance.pid}) runs`;
}

async function printStarted(input: CommandInput, running: RunningGateway, what: string): Promise<void> {
  const { instance, dataDir } = running;
  const asked = await new ControlClient(running).post('/api/v1/console-links', '{}');
  const { url: consoleUrl } = JSON.parse(asked) as { url: string };
  print(input, { started: true, ...gatewayFacts(running), consoleUrl }, () =>
    [
      `${what} the gateway ${gatewayName(running)}`,
      `  in the background, pid ${instance.pid}; its log: ${join(dataDir, LOG_FILE)}`,
      `  console: ${consoleUrl}`,
      '  trunkline status shows its servers, trunkline stop ends it',
      '',
    ].join('\n'),
  );
}

/** The options as words, including those from the environment, which the next start may not have. */
export function wordsOf({ flags, serverCommand, terminal }: CommandInput, file: string | undefined): readonly string[] {
  const words: string[] = [];
  for (const option of GATEWAY_OPTIONS) {
    const value = (flags as Record<string, unknown>)[option.attributeName()];
    if (value === true) words.push(option.long!);
    else if (value !== undefined && value !== false) words.push(option.long!, String(value));
  }
  for (const variable of flags.env ?? []) words.push('--env', variable);
  if (file !== undefined) words.push(resolve(terminal.cwd, file));
  return serverCommand.length === 0 ? words : [...words, '--', ...serverCommand];
}

/** Reads what a start of `next` with the words of this gateway would read. Throws what would refuse it. */
async function checkWords(
  input: CommandInput,
  next: CommandInput,
  instance: RunningGateway['instance'],
): Promise<void> {
  const words = instance.words ?? [];
  const cut = words.concat('--').indexOf('--');
  const start = new Command('start')
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .argument('[file]');
  for (const option of [...GATEWAY_OPTIONS, VARIABLE_OPTION]) start.addOption(option);
  start.parse(words.slice(0, cut), { from: 'user' });
  inheritFlags(start);
  const { dataDir, ...others } = start.opts<GatewayFlags>();
  const { terminal } = next;
  const folder = dataDir === undefined ? {} : { dataDir: resolve(terminal.cwd, dataDir) };
  const flags: GatewayFlags = { ...others, ...folder };
  const given = { file: start.args[0], serverCommand: words.slice(cut + 1), flags, terminal };
  const load = loadOptions(given, hasStoredServers(flags.dataDir, terminal));
  const { checkStart } = await import('../check.ts');
  // Where neither flags nor files name ports, the next gateway has those of this one, which are taken until it ends.
  const [port, controlPort] = [instance.mcpUrl, instance.controlUrl].map((one) => Number(new URL(one).port));
  const usual = port && controlPort ? { usual: { port, controlPort } } : {};
  await checkStart({ ...load, overrides: { ...load.overrides, ...usual } }, input);
}

/** Starts the process and waits until it listens. Rejects with the output of the process if it ends before. */
async function launch({ terminal }: CommandInput, dataDir: string, words: readonly string[]): Promise<RunningGateway> {
  const folder = gatewayFolder(dataDir, terminal);
  const output = folder.file(OUTPUT);
  let descriptor: number;
  try {
    folder.prepare();
    descriptor = openSync(output, 'w', 0o600);
  } catch (error) {
    const { folderProblem } = await import('../../app/open-app.ts');
    const problem = folderProblem(error);
    if (problem === null) throw error;
    throw cannotOpen(problem, terminal.cwd);
  }
  const child = spawn(
    process.execPath,
    [...process.execArgv, resolve(process.argv[1]!), 'start', '--in-background', ...words],
    {
      cwd: terminal.cwd,
      env: terminal.env,
      detached: true,
      stdio: ['ignore', descriptor, descriptor],
    },
  );
  closeSync(descriptor);
  let ended = false;
  const over = performance.now() + START_MS;
  const interrupted = (): boolean => child.kill();
  process.once('SIGINT', interrupted);
  for (const event of ['exit', 'error']) {
    child.once(event, () => {
      ended = true;
    });
  }
  try {
    while (!ended && performance.now() < over) {
      const running = runningGateway(folder);
      if (running !== null && running.instance.pid === child.pid) return running;
      await pause(POLL_MS);
    }
  } finally {
    process.removeListener('SIGINT', interrupted);
    child.unref();
  }
  const said = readFileSync(output, 'utf8')
    .trim()
    .replace(/^trunkline: /gm, '');
  if (ended) throw usage(`the gateway did not start\n${said}`);
  const what = `the gateway (pid ${child.pid}) does not listen after ${START_MS / 1000} s, and goes on starting`;
  throw new CommandError(EXIT.unreachable, `${what}; its log: ${folder.file(LOG_FILE)}`);
}

async function end(running: RunningGateway, now: boolean): Promise<void> {
  const { pid, startedAt, words } = running.instance;
  if (words === undefined) {
    const what = `the gateway ${gatewayName(running)} (pid ${pid}) is of an earlier version, which this cannot stop`;
    throw usage(`${what}; end it where it runs, with Ctrl-C or SIGTERM`);
  }
  const path = `/api/v1/gateway/stop?now=${now ? 1 : 0}`;
  // Ends the request too, which would keep this process for as long as the gateway is silent.
  const wait = AbortSignal.timeout(ANSWER_MS);
  await new ControlClient(running).send('POST', path, '{}', wait).catch((error: unknown) => {
    if (!wait.aborted) throw error;
    const what = `the gateway ${gatewayName(running)} (pid ${pid}) did not answer within ${ANSWER_MS / 1000} s`;
    const left = `it has not ended, but may when it goes on; look at the process with: ps -p ${pid}`;
    throw new CommandError(EXIT.unreachable, `${what}; ${left}`, { cause: error });
  });
  const over = performance.now() + GONE_MS;
  const folder = gatewayFolder(running.dataDir, { cwd: '/', env: {} });
  while (folder.instance()?.startedAt === startedAt) {
    if (performance.now() > over) {
      const words = `the gateway (pid ${pid}) still finishes calls after ${GONE_MS / 1000} s`;
      throw new CommandError(EXIT.unreachable, `${words}; trunkline stop --now does not wait for them`);
    }
    await pause(POLL_MS);
  }
}
