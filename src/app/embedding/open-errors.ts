import { type ConfigProblem, renderProblem } from '../../config/problem/problem.ts';
import type { OpenProblem } from '../app-options.ts';

/** An invalid configuration or definition; `problems` says everything that is wrong, each with its place. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map((problem) => renderProblem(problem)).join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** The configuration is good, and the gateway cannot be opened all the same. */
export class OpenError extends Error {
  /**
   * `bind`: it would listen where it must not. `held`: another gateway has the data folder. `folder`: the data folder cannot be
   * written, or others may write to it. `truth`: what was decided at run time is damaged.
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
