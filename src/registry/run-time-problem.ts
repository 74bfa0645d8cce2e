import { type ConfigProblem, suggest } from '../config/problem/problem.ts';
import type { Need } from '../config/server/definition-needs.ts';
import { StoreError } from '../store/run-time-store/run-time-store.ts';

/** Why a change of servers at run time, or a decision about definitions, was refused, without effect. */
export type RunTimeCode =
  /** `problems` lists everything that is wrong, as for a file. */
  | 'definition_invalid'
  | 'definition_too_large'
  | 'name_taken'
  | 'no_such_server'
  /** The server is in a file or in the program, and can only be changed there. */
  | 'not_added_here'
  /** The definition needs the right `servers:exec`. */
  | 'exec_required'
  /** Another client has changed the server meanwhile. */
  | 'revision_changed'
  | 'too_many'
  | 'no_such_session'
  | 'disabled_by_definition'
  /** The nodes of this cluster share no store for the change. */
  | 'no_shared_store'
  /** The server now offers something else. */
  | 'definition_outdated'
  /** A decision about definitions cannot be stored. */
  | 'decision_not_stored'
  /** The disk is full. */
  | 'store_full'
  /** The store failed during the change: whether it was made is unknown. */
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

export function definitionInvalid(problems: readonly ConfigProblem[]): RunTimeProblem {
  return new RunTimeProblem('definition_invalid', problems.map(({ message }) => message).join('; '), { problems });
}

/** An error of the store as the refusal of a change; any other error unchanged. */
export function storeProblem(error: unknown): unknown {
  if (!(error instanceof StoreError)) return error;
  if (error.fault === 'unknown') {
    const message = `whether it was changed is not known; what is there is read again soon: ${error.message}`;
    return new RunTimeProblem('outcome_unknown', message, { cause: error });
  }
  const code = error.fault === 'full' ? 'store_full' : 'store_unavailable';
  return new RunTimeProblem(code, `nothing was changed: ${error.message}`, { cause: error });
}

export function noServer(name: string, known: Iterable<string>): RunTimeProblem {
  const near = suggest(name, known);
  const hint = near === null ? '' : `; did you mean ${JSON.stringify(near)}?`;
  return new RunTimeProblem('no_such_server', `there is no server ${JSON.stringify(name)}${hint}`);
}

/** `file`: the position of the server in a file; null for a server added at run time. */
export function nameTaken(name: string, taken: string, file: string | null): RunTimeProblem {
  const where = file === null ? ': remove it first, use "trunkline add --replace", or' : ` in ${file}:`;
  const how = taken === name ? `exists already${where}` : `would be confused with ${taken}:`;
  return new RunTimeProblem('name_taken', `the server ${name} ${how} choose another name`);
}

/** `found`: the revision, or what there is instead. */
export function revisionChanged(name: string, found: number | 'temporary' | null): RunTimeProblem {
  const now =
    found === null
      ? 'it is gone'
      : found === 'temporary'
        ? 'it is a temporary server now'
        : `it is at revision ${found} now`;
  return new RunTimeProblem('revision_changed', `another client has changed ${name} meanwhile: ${now}`);
}

/** The caller of a change at run time. */
export interface Caller {
  /** Has the right `servers:exec`: its definitions may do whatever those in files may. */
  readonly exec: boolean;
}

/** Throws RunTimeProblem if the definition needs more rights than its caller has (decision 019). */
export function refuseBeyondRights(
  needs: readonly Need[],
  caller: Caller,
  allowedCommands: readonly string[],
  who = 'this server',
): void {
  if (caller.exec) return;
  const beyond = needs.filter((need) => need.kind !== 'command' || !allowedCommands.includes(need.command));
  if (beyond.length === 0) return;
  const fix =
    'write it into the configuration file, use `trunkline add`, or send the exec token of the data folder' +
    (beyond.every(({ kind }) => kind === 'command') ? ', or allow the command in control.commands' : '');
  throw new RunTimeProblem(
    'exec_required',
    `${who} ${beyond.map(inWords).join(' and ')}, which takes the right servers:exec; ${fix}`,
  );
}

function inWords(need: Need): string {
  switch (need.kind) {
    case 'command':
      return `runs the command ${JSON.stringify(need.command)}`;
    case 'ssh':
      return 'runs on another host';
    case 'container':
      return 'runs in a container';
    case 'reads':
      return `reads variables or files of the gateway (${need.what})`;
    case 'variable':
      return `sets the variable ${need.name}, which steers other programs`;
    case 'address':
      return `is at ${need.host}, an address of this machine or its network`;
  }
}
