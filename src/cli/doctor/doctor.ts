import { styleText } from 'node:util';
import type { AskNode } from '../../app/doctor/cluster-steps.ts';
import { Doctor, type ExaminedServer } from '../../app/doctor/doctor.ts';
import { type DoctorStep, failed, ofProblem, ok, warning } from '../../app/doctor/doctor-step.ts';
import { certificateSteps, folderStep, portSteps, programSteps } from '../../app/doctor/machine-steps.ts';
import { hasStoredServers, type RunningGateway } from '../../app/running.ts';
import { findConfig } from '../../config/files/find-config.ts';
import type { LoadOptions } from '../../config/load-config.ts';
import { renderProblem } from '../../config/problem/problem.ts';
import { counted } from '../../model/counted.ts';
import { isReady, type ServerStatus } from '../../model/server-state.ts';
import { ControlClient } from '../access/control-client.ts';
import { findRunning, gatewayName } from '../access/find-running.ts';
import { folderOfLoad, withUsualPorts } from '../access/own-ports.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode, noSuch } from '../exit-code.ts';
import { isFileName, loadOptions, sourceLabel } from '../sources.ts';

export interface DoctorInput extends CommandInput {
  /** Names of servers; the first word may be a configuration file. */
  readonly words: readonly string[];
}

/**
 * `trunkline doctor [file] [server…]`: checks the machine, then starts each server as a gateway would and reports the step at
 * which it fails. Changes nothing. Exit code 0 if no check fails, 4 otherwise.
 */
export async function doctor(input: DoctorInput): Promise<ExitCode> {
  const { terminal, flags, words } = input;
  const [first = ''] = words;
  const isFile = first !== '' && (isFileName(terminal.cwd, first) || /[/\\]|\.(?:jsonc?|ya?ml|toml)$/.test(first));
  const given = isFile ? { ...input, file: first } : input;
  const wanted = isFile ? words.slice(1) : words;
  const write = flags.json === true ? () => {} : terminal.out;
  const running = await findRunning(given);
  const machine: DoctorStep[] = [...programSteps()];
  const load = await loadOf(given, running, machine);
  const opened = load === null ? null : await Doctor.open(load, wanted);
  if (opened?.ok === true) {
    const { state, known } = opened.doctor;
    machine.push(ok('file', `${sourceLabel(load!)}: ${counted(known.length, 'server')}`));
    for (const problem of opened.doctor.warnings) machine.push(noted(problem, terminal.cwd));
    machine.push(folderStep(await folderOfLoad(given, load!), state.dataDir !== null));
    machine.push(...certificateSteps(state));
    if (running === null) machine.push(...(await portSteps(state)));
  } else if (opened !== null) {
    if (opened.problem.kind === 'config')
      for (const problem of opened.problem.problems) machine.push(failed('file', renderProblem(problem, terminal.cwd)));
    else machine.push(ofProblem(opened.problem));
  }
  machine.push(
    running === null
      ? ok('gateway', 'none runs here')
      : ok('gateway', `runs as pid ${running.instance.pid} ${gatewayName(running)}`),
  );
  write(section('machine', machine));
  const cluster = opened?.ok === true ? await opened.doctor.examineCluster(askOf(running)) : [];
  if (cluster.length > 0) write(section('cluster', cluster));
  const servers = opened?.ok === true ? await examineAll(opened.doctor, wanted, running, write) : [];
  const isHealthy = (steps: readonly DoctorStep[]): boolean => steps.every(({ state }) => state !== 'failed');
  const unhealthy = servers.filter(({ steps }) => !isHealthy(steps)).length;
  const healthy = isHealthy(machine) && isHealthy(cluster) && unhealthy === 0;
  const text = () =>
    `${isHealthy(cluster) ? '' : 'the cluster has problems; '}${summary(isHealthy(machine), servers.length, unhealthy)}`;
  print(given, { ok: healthy, machine, cluster, servers }, text);
  return healthy ? EXIT.ok : EXIT.unreachable;
}

/** The configuration to check: a named file, else that of the running gateway. Without one: null, and a failed step. */
async function loadOf(
  input: CommandInput,
  running: RunningGateway | null,
  machine: DoctorStep[],
): Promise<LoadOptions | null> {
  const { flags, terminal, file, serverCommand } = input;
  const isNamed = file !== undefined || serverCommand.length > 0 || running !== null;
  if (!isNamed && findConfig(terminal.cwd) === null && !hasStoredServers(flags.dataDir, terminal)) {
    machine.push(failed('file', `no configuration file here or above ${terminal.cwd}`, 'make one: trunkline init'));
    return null;
  }
  const load = loadOptions(input, true);
  if (running === null) return withUsualPorts(input, load);
  const { files, command, cwd = load.cwd } = running.instance;
  if (file !== undefined) return load;
  if (command != null) return { ...load, cwd, files, argvCommand: command };
  return files.length > 0 ? { ...load, files } : load;
}

function noted(problem: Parameters<typeof renderProblem>[0], cwd: string): DoctorStep {
  return warning('file', renderProblem(problem, cwd), problem.fix);
}

async function examineAll(
  doctor: Doctor,
  wanted: readonly string[],
  running: RunningGateway | null,
  write: (text: string) => void,
): Promise<readonly ExaminedServer[]> {
  try {
    for (const name of wanted) if (!doctor.known.includes(name)) throw noSuch(`server "${name}"`, name, doctor.known);
    const there = await statusesOf(running);
    doctor.start();
    const examined: ExaminedServer[] = [];
    for (const name of doctor.state.servers.keys()) {
      const one = await doctor.examine(name);
      const steps = there === null ? one.steps : [...one.steps, gatewayStep(there.get(name), one)];
      write(section(name, steps, one.stderr));
      examined.push({ ...one, steps });
    }
    return examined;
  } finally {
    await doctor.close();
  }
}

const PATHS = { listNodes: '/api/v1/nodes', getGateway: '/api/v1/gateway' } as const;

function askOf(running: RunningGateway | null): AskNode | null {
  if (running === null) return null;
  const client = new ControlClient(running);
  return async (operation) => JSON.parse(await client.get(PATHS[operation]));
}

async function statusesOf(running: RunningGateway | null): Promise<ReadonlyMap<string, ServerStatus> | null> {
  if (running === null) return null;
  const { servers } = JSON.parse(await new ControlClient(running).get('/api/v1/servers')) as {
    servers: ServerStatus[];
  };
  return new Map(servers.map((status) => [status.name, status]));
}

/** The state of the server in the running gateway, as a step. */
function gatewayStep(status: ServerStatus | undefined, { name, steps }: ExaminedServer): DoctorStep {
  if (status === undefined)
    return warning('gateway', 'the running gateway does not have it', 'see why: trunkline status');
  const { state, reason, toolCount } = status;
  if (isReady(status)) return ok('gateway', `${state} there, ${counted(toolCount, 'tool')}`);
  if (reason === null) return ok('gateway', `${state} there`);
  const text = `${state} there: ${reason}`;
  const fine = steps.every((step) => step.state !== 'failed');
  return fine ? warning('gateway', text, `trunkline restart ${name}`) : failed('gateway', text);
}

const WORDS = {
  ok: styleText('green', 'ok  '),
  warning: styleText('yellow', 'note'),
  failed: styleText('red', 'FAIL'),
};

function section(title: string, steps: readonly DoctorStep[], stderr: readonly string[] = []): string {
  const width = Math.max(12, ...steps.map(({ step }) => step.length));
  const lines = steps.flatMap(({ step, state, text, fix }) => [
    `  ${WORDS[state]}  ${step.padEnd(width)} ${text.replaceAll('\n', `\n${' '.repeat(8)}`)}`,
    ...(fix === null || text.includes(`fix: ${fix}`) ? [] : [`        ${styleText('bold', 'fix:')} ${fix}`]),
  ]);
  return `${styleText('bold', title)}\n${[...lines, ...stderr.map((line) => `        | ${line}`)].join('\n')}\n\n`;
}

function summary(machine: boolean, count: number, unhealthy: number): string {
  const servers = `${count - unhealthy} of ${count} servers healthy`;
  return `${machine ? '' : 'this machine has problems; '}${servers}\n`;
}
