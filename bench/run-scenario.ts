import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Finding, Job } from './load/job.ts';
import type { Limit, Scenario } from './scenarios.ts';
import { median } from './statistics.ts';
import type { Behind, Running, Scene, Target } from './targets/target.ts';

const GENERATOR = join(import.meta.dirname, 'load', 'main.ts');
const WARM_UP_MS = 700;
/** In the round that does not count: enough for compilers to have done their work, also on a slow machine. */
const FIRST_WARM_UP_MS = 4000;
const FIRST_WARM_UP_OPERATIONS = 150_000;
/** As much of an error as a table bears. */
const MAX_REASON = 300;
const execute = promisify(execFile);

export interface RunOptions {
  readonly rounds: number;
  readonly measureMs: number;
}

/** One target in one scenario: medians over the rounds, or why there is none. */
export interface Row {
  readonly target: string;
  /** A row of comparison: the same target in front of a server of the client's own era. */
  readonly sameEra: boolean;
  /** Why the row is void or absent; '' when it stands. */
  readonly problem: string;
  readonly perSecond: number;
  readonly cpuUs: number;
  /** Of what else works for the target. */
  readonly besideUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly rssMiB: number;
  readonly kibPerSession: number;
  /** Of that, what is in use after a collection; 0 where none was made. */
  readonly heldPerSession: number;
  /** Share of one core that the load generator used. */
  readonly clientShare: number;
  /** The figures that limits are judged by, one of each round. */
  readonly byRound: Readonly<Record<Limit['figure'], readonly number[]>>;
}

interface Entry {
  readonly target: Target;
  readonly behind: Behind;
  readonly sameEra: boolean;
  running: Running | null;
  problem: string;
  /** At how many places the load arrives. */
  doors: number;
  readonly findings: Finding[];
}

/** Measures all targets in turn, round by round, so that what else the machine does falls on all of them alike. */
export async function runScenario(
  scenario: Scenario,
  targets: readonly Target[],
  scene: Scene,
  options: RunOptions,
): Promise<Row[]> {
  const entries = targets
    .filter(({ name, named }) => scenario.only?.includes(name) ?? named !== true)
    .flatMap((target) => entriesOf(scenario, target));
  try {
    // A round before the first is not counted: every target is to be as warm as in a day's work.
    const warmUps = scenario.fresh === true ? 0 : 1;
    for (let round = -warmUps; round < options.rounds; round++) {
      for (const entry of inTurn(entries, round)) {
        if (entry.problem === '') await measure(entry, scenario, scene, options, round >= 0);
      }
    }
  } finally {
    for (const { running } of entries) await running?.stop();
  }
  return entries.map((entry) => rowOf(entry, scenario));
}

/** Each round begins with another one, so that what changes within rounds is nobody's advantage. */
function inTurn<Item>(items: readonly Item[], round: number): readonly Item[] {
  const first = Math.max(round, 0) % Math.max(items.length, 1);
  return [...items.slice(first), ...items.slice(0, first)];
}

/** What the target is measured in front of: the first that it can serve, and what that is compared with. */
function entriesOf(scenario: Scenario, target: Target): Entry[] {
  const behind = scenario.behind.find((candidate) => target.canServe(candidate));
  const entry = (what: Behind, sameEra: boolean) => ({
    target,
    behind: what,
    sameEra,
    running: null,
    problem: '',
    doors: 1,
    findings: [],
  });
  if (behind === undefined) return [];
  if (scenario.sameEra === undefined) return [entry(behind, false)];
  return [entry(behind, false), entry(scenario.sameEra, true)];
}

async function measure(
  entry: Entry,
  scenario: Scenario,
  scene: Scene,
  options: RunOptions,
  counts: boolean,
): Promise<void> {
  const { target, behind } = entry;
  try {
    entry.running ??= await target.start(scene, behind);
    entry.doors = 1 + (entry.running.alsoUrls?.length ?? 0);
    const job = jobOf(scenario, target, behind, entry.running, options);
    const finding = await generate(counts ? job : { ...job, ...firstWarmUp(job) });
    if (finding.wrong > 0) entry.problem = `${finding.wrong} wrong answers: ${finding.firstWrong}`;
    else if (finding.operations === 0) entry.problem = 'no answer in the measured time';
    else if (counts) entry.findings.push(finding);
    else if (!finding.warm) console.error(`bench: ${scenario.name}, ${target.name}: not warm after a minute`);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    entry.problem = `absent: ${reason.slice(0, MAX_REASON)}`;
  }
  if (entry.problem !== '') console.error(`bench: ${scenario.name}, ${target.name}: ${entry.problem}`);
  if (scenario.fresh === true) {
    await entry.running?.stop();
    entry.running = null;
  }
}

function jobOf(scenario: Scenario, target: Target, behind: Behind, running: Running, options: RunOptions): Job {
  // A session may be a process behind stdio, and it is calls that are measured there: one session for all targets.
  const maxSessions = behind === 'stdio' ? 1 : target.maxSessions;
  return {
    url: running.url,
    alsoUrls: running.alsoUrls ?? [],
    era: 'stateful',
    maxSessions: Math.min(maxSessions, scenario.job.connections),
    tool: 'echo',
    toolPrefix: running.toolPrefix,
    tools: 0,
    warmUpMs: WARM_UP_MS,
    warmUpOperations: 0,
    measureMs: options.measureMs,
    pids: running.pids(),
    besidePids: running.besidePids?.() ?? [],
    openSessions: 0,
    streams: false,
    collects: false,
    ...scenario.job,
  };
}

/** Small calls warm up by number, whatever the machine; lists, large results, whole sessions and many open ones by time. */
function firstWarmUp({ kind, tool }: Job): Pick<Job, 'warmUpMs' | 'warmUpOperations'> {
  return {
    warmUpMs: FIRST_WARM_UP_MS,
    warmUpOperations: kind === 'calls' && tool === 'echo' ? FIRST_WARM_UP_OPERATIONS : 0,
  };
}

async function generate(job: Job): Promise<Finding> {
  const { stdout } = await execute(process.execPath, [GENERATOR, JSON.stringify(job)], { timeout: 300_000 });
  return JSON.parse(stdout) as Finding;
}

function rowOf({ target, sameEra, problem, findings, doors }: Entry, scenario: Scenario): Row {
  const each = (value: (finding: Finding) => number) => findings.map(value);
  const middle = (value: (finding: Finding) => number) => median(each(value));
  const sessions = (scenario.job.openSessions ?? 0) * doors;
  const perSession = (kib: number) => (sessions === 0 ? 0 : kib / sessions);
  const byRound = {
    cpuUs: each((finding) => finding.cpuUs / finding.operations),
    kibPerSession: each((finding) => perSession(finding.rssOpenKiB - finding.rssBeforeKiB)),
    heldPerSession: each((finding) => perSession(finding.heldOpenKiB - finding.heldBeforeKiB)),
  };
  return {
    target: target.name,
    sameEra,
    problem,
    perSecond: middle((finding) => (finding.operations / finding.wallMs) * 1000),
    cpuUs: median(byRound.cpuUs),
    besideUs: middle((finding) => finding.besideCpuUs / finding.operations),
    p50Ms: middle((finding) => finding.p50Ms),
    p99Ms: middle((finding) => finding.p99Ms),
    rssMiB: middle((finding) => finding.rssKiB) / 1024,
    kibPerSession: median(byRound.kibPerSession),
    heldPerSession: median(byRound.heldPerSession),
    clientShare: middle((finding) => finding.clientCpuUs / 1000 / finding.wallMs),
    byRound,
  };
}
