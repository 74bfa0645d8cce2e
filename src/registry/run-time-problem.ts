import type { ConfigProblem } from '../config/problem/problem.ts';
import { TruthError } from '../store/truth/truth.ts';

/** Why a change of servers at run time was refused. Nothing of it was done. */
export type RunTimeCode =
  /** Not good: `problems` says everything that is wrong, as of a file. */
  | 'definition_invalid'
  | 'definition_too_large'
  | 'name_taken'
  | 'no_such_server'
  /** It stands in a file, or in the program: only there it can be changed. */
  | 'not_added_here'
  /** It does what takes the right `servers:exec`. */
  | 'exec_required'
  /** Somebody else has changed it meanwhile. */
  | 'revision_changed'
  | 'too_many'
  | 'no_such_session'
  | 'disabled_by_definition'
  /** The nodes of this cluster share no store that would keep it. */
  | 'no_shared_store'
  /** The disk takes nothing. */
  | 'store_full'
  /** The store broke off in the middle: whether the change was made could not be found out. */
  | 'outcome_unknown'
  /** The store cannot be read or written for another reason. */
  | 'store_unavailable';

export class RunTimeProblem extends Error {
  readonly code: RunTimeCode;
  readonly problems: readonly ConfigProblem[];

  constructor(
    code: RunTimeCode,
    message: string,
    options: ErrorOptions & { problems?: readonly ConfigProblem[] } = {},
  ) {
    super(message, options);
    this.code = code;
    this.problems = options.problems ?? [];
  }
}

/** What the store throws, as a refusal of the change; anything else as it is. */
export function storeProblem(error: unknown): unknown {
  if (!(error instanceof TruthError)) return error;
  if (error.fault === 'unknown') {
    const message = `whether it was changed is not known; what is there is read again soon: ${error.message}`;
    return new RunTimeProblem('outcome_unknown', message, { cause: error });
  }
  const code = error.fault === 'full' ? 'store_full' : 'store_unavailable';
  return new RunTimeProblem(code, `nothing was changed: ${error.message}`, { cause: error });
}

export function noServer(name: string): RunTimeProblem {
  return new RunTimeProblem('no_such_server', `there is no server ${JSON.stringify(name)}`);
}

export function revisionChanged(name: string, found: number | null): RunTimeProblem {
  const now = found === null ? 'it is gone' : `it is at revision ${found} now`;
  return new RunTimeProblem('revision_changed', `another client has changed ${name} meanwhile: ${now}`);
}
