import type { OpenProblem } from '../app/app-options.ts';
import { renderProblem, suggest } from '../config/problem/problem.ts';

/** Exit codes of every command; scripts rely on them. */
export const EXIT = {
  ok: 0,
  /** Wrong usage, or an invalid configuration. */
  usage: 1,
  authRequired: 3,
  unreachable: 4,
  /** The tool ran and reported an error. */
  toolError: 5,
  /** `drift --check`: definitions wait for a decision. */
  drift: 6,
  /** `replay`: an answer differs from the recording. */
  difference: 1,
  internal: 70,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Ends a command with a message for people and an exit code for scripts. */
export class CommandError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CommandError';
    this.exitCode = exitCode;
  }
}

/** An error that the user can correct in the command line or configuration. */
export function usage(message: string, options?: ErrorOptions): CommandError {
  return new CommandError(EXIT.usage, message, options);
}

/** `what` does not exist: suggests the closest of `names`, or adds `otherwise` if none is close. */
export function noSuch(what: string, wanted: string, names: readonly string[], otherwise = ''): CommandError {
  const close = suggest(wanted, names);
  return usage(`there is no ${what}${close === null ? otherwise : `; did you mean "${close}"?`}`);
}

/** Why the gateway cannot start, with the remedy. */
export function cannotOpen(problem: OpenProblem, cwd: string): CommandError {
  return usage(textOf(problem, cwd));
}

function textOf(problem: OpenProblem, cwd: string): string {
  switch (problem.kind) {
    case 'config':
      return problem.problems.map((one) => renderProblem(one, cwd)).join('\n\n');
    case 'bind':
      return problem.message;
    case 'folder':
    case 'truth':
      return `${problem.message}\n  fix: ${problem.remedy}`;
    case 'held': {
      const { holder, dataDir } = problem;
      const who =
        holder === null
          ? 'another process'
          : `trunkline ${holder.version} (pid ${holder.pid}, ${holder.mcpUrl}, serving ${holder.files.join(', ') || 'a command'})`;
      return `${who} already uses the data folder ${dataDir}\n  fix: use that gateway, stop it with: trunkline stop, or start this one with --data-dir <another folder>`;
    }
  }
}
