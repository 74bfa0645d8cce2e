import type { Finding, Job } from './load/job.ts';
import type { Scenario } from './scenarios.ts';
import type { Behind, Running, Scene, Target } from './targets/target.ts';

const WARM_UP_MS = 700;
/** In the round that is not counted: long enough for the compilers to finish, also on a slow machine. */
const FIRST_WARM_UP_MS = 4000;
const FIRST_WARM_UP_OPERATIONS = 150_000;
/** The longest error text that a table shows. */
const MAX_REASON = 300;

/** One target in front of one kind of server, while a scenario is measured. */
export interface Entry {
  readonly target: Target;
  readonly behind: Behind;
  readonly sameEra: boolean;
  running: Running | null;
  problem: string;
  /** The number of URLs that receive the load. */
  doors: number;
  readonly findings: Finding[];
}

/** The servers behind the target: the first kind that it can serve, and the kind for the comparison. */
export function entriesOf(scenario: Scenario, target: Target): Entry[] {
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

/** The job of the load generator. Starts the target if it does not run yet. */
export async function jobFor(entry: Entry, scenario: Scenario, scene: Scene, measureMs: number): Promise<Job> {
  entry.running ??= await entry.target.start(scene, entry.behind);
  entry.doors = 1 + (entry.running.alsoUrls?.length ?? 0);
  return jobOf(scenario, entry.target, entry.behind, entry.running, measureMs);
}

function jobOf(scenario: Scenario, target: Target, behind: Behind, running: Running, measureMs: number): Job {
  // Behind stdio a session may be a process, but the bench measures calls there: one session for all targets.
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
    measureMs,
    leadMs: 0,
    pids: running.pids(),
    besidePids: running.besidePids?.() ?? [],
    openSessions: 0,
    streams: false,
    collects: false,
    ...scenario.job,
  };
}

/** Small calls warm up by number, whatever the machine; lists, large results, whole sessions and many open ones by time. */
export function firstWarmUp({ kind, tool }: Job): Pick<Job, 'warmUpMs' | 'warmUpOperations'> {
  return {
    warmUpMs: FIRST_WARM_UP_MS,
    warmUpOperations: kind === 'calls' && tool === 'echo' ? FIRST_WARM_UP_OPERATIONS : 0,
  };
}

/** Keeps the finding, or marks the row as failed. `counts`: the finding is one of those of the row. */
export function keep(entry: Entry, scenario: Scenario, finding: Finding, counts: boolean): void {
  if (finding.wrong > 0) fail(entry, scenario, `${finding.wrong} wrong answers: ${finding.firstWrong}`);
  else if (finding.operations === 0) fail(entry, scenario, 'no answer in the measured time');
  else if (counts) entry.findings.push(finding);
  else if (!finding.warm) console.error(`bench: ${scenario.name}, ${entry.target.name}: not warm after a minute`);
}

export function fail(entry: Entry, scenario: Scenario, problem: string): void {
  entry.problem = problem;
  console.error(`bench: ${scenario.name}, ${entry.target.name}: ${problem}`);
}

export function absent(error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error);
  return `absent: ${reason.slice(0, MAX_REASON)}`;
}
