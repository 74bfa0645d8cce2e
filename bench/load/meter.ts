import type { Finding, Job } from './job.ts';
import type { OpenedSessions } from './open-sessions.ts';
import { cpuUs, rssKiB } from './process-usage.ts';

/** Counts operations and their cost in the measured time, which `start` begins or restarts, and `finish` ends. */
export class Meter {
  readonly #job: Job;
  #latencies: number[] = [];
  #running = false;
  #right = 0;
  #wrong = 0;
  #firstWrong = '';
  #startedAt = 0;
  #cpuAtStart = 0;
  #besideAtStart = 0;
  #clientCpuAtStart = 0;

  constructor(job: Job) {
    this.#job = job;
  }

  get wrong(): number {
    return this.#wrong;
  }

  /** Successful operations so far, also those outside the measured time. */
  get right(): number {
    return this.#right;
  }

  start(): void {
    this.#running = true;
    this.#latencies = [];
    this.#cpuAtStart = cpuUs(this.#job.pids);
    this.#besideAtStart = cpuUs(this.#job.besidePids);
    this.#clientCpuAtStart = ownCpuUs();
    this.#startedAt = performance.now();
  }

  /** Counts an operation that has ended, at any time; records its duration in the measured time only. */
  count(begunAt: number, problem: string | null): void {
    if (problem !== null) {
      this.#wrong++;
      if (this.#firstWrong === '') this.#firstWrong = problem;
      return;
    }
    this.#right++;
    if (this.#running) this.#latencies.push(performance.now() - begunAt);
  }

  finish(memory: OpenedSessions): Omit<Finding, 'warm'> {
    this.#running = false;
    const wallMs = performance.now() - this.#startedAt;
    const cpu = cpuUs(this.#job.pids) - this.#cpuAtStart;
    const besideCpuUs = cpuUs(this.#job.besidePids) - this.#besideAtStart;
    const clientCpuUs = ownCpuUs() - this.#clientCpuAtStart;
    const sorted = Float64Array.from(this.#latencies).sort();
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
    return {
      operations: sorted.length,
      wallMs,
      cpuUs: cpu,
      besideCpuUs,
      clientCpuUs,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      rssKiB: rssKiB(this.#job.pids),
      ...memory,
      wrong: this.#wrong,
      firstWrong: this.#firstWrong,
    };
  }
}

function ownCpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
