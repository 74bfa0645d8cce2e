import { type ConfigProblem, renderProblem } from '../../config/problem/problem.ts';
import type { OpenProblem } from '../app-options.ts';

/** An invalid configuration or definition; `problems` lists all faults, each with its position. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map((problem) => renderProblem(problem)).join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** The gateway cannot be opened although the configuration is valid. */
export class OpenError extends Error {
  /**
   * `bind`: it would listen where it must not. `held`: another gateway holds the data folder. `folder`: the data folder cannot
   * be written, or other users may write to it. `truth`: the run-time store is damaged or cannot be reached.
   */
  readonly reason: 'bind' | 'held' | 'folder' | 'truth';

  constructor(reason: OpenError['reason'], message: string) {
    super(message);
    this.name = 'OpenError';
    this.reason = reason;
  }
}

export function openError(problem: OpenProblem): ConfigError | OpenError {
  if (problem.kind === 'config') return new ConfigError(problem.problems);
  if (problem.kind === 'bind') return new OpenError('bind', problem.message);
  if (problem.kind !== 'held') return new OpenError(problem.kind, `${problem.message}; ${problem.remedy}`);
  const holder = problem.holder === null ? 'another gateway' : `the gateway with process id ${problem.holder.pid}`;
  return new OpenError('held', `the data folder ${problem.dataDir} is in use by ${holder}`);
}
