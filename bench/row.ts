import type { Entry } from './entry.ts';
import type { Finding } from './load/job.ts';
import type { Limit, Scenario } from './scenarios.ts';
import { median } from './statistics.ts';

/** One target in one scenario: medians over the rounds, or why there is none. */
export interface Row {
  readonly target: string;
  /** A row of comparison: the same target in front of a server of the client's own era. */
  readonly sameEra: boolean;
  /** Why the row is void or absent; '' when it is valid. */
  readonly problem: string;
  readonly perSecond: number;
  readonly cpuUs: number;
  /** CPU time of the other processes that work for the target. */
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

export function rowOf({ target, sameEra, problem, findings, doors }: Entry, scenario: Scenario): Row {
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
