import type { OpenProblem } from '../app-options.ts';

/** The result of one examination. */
export interface DoctorStep<S extends string = string> {
  readonly step: S;
  readonly state: 'ok' | 'warning' | 'failed';
  /** What was found. */
  readonly text: string;
  /** What to do; null if nothing has to be done, or no remedy is known. */
  readonly fix: string | null;
}

export function ok<S extends string>(step: S, text: string): DoctorStep<S> {
  return { step, state: 'ok', text, fix: null };
}

export function warning<S extends string>(step: S, text: string, fix: string): DoctorStep<S> {
  return { step, state: 'warning', text, fix };
}

/** Splits a message that ends with its remedy. */
export function failed<S extends string>(step: S, text: string, fix: string | null = null): DoctorStep<S> {
  const [what, remedy] = splitFix(text);
  return { step, state: 'failed', text: what, fix: fix ?? remedy };
}

function splitFix(text: string): readonly [string, string | null] {
  const at = text.indexOf('; fix: ');
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + '; fix: '.length)];
}

/** Returns the message without the name of the server, and the remedy after its `;`, if it has one. */
export function splitRemedy(text: string, name: string): readonly [string, string | null] {
  const prefix = [`Cannot start the server ${name}: `, `${name} could not be started: `, `${name}: `];
  const bare = prefix.reduce((rest, words) => (rest.startsWith(words) ? rest.slice(words.length) : rest), text);
  const [, what = bare, remedy = null] = /^(.*?); (.*?)\.?$/s.exec(bare) ?? [];
  return [what, remedy];
}

/** Returns the step for a problem that prevents a gateway from being built. */
export function ofProblem(problem: Exclude<OpenProblem, { kind: 'config' }>): DoctorStep {
  switch (problem.kind) {
    case 'bind':
      return failed('ports', problem.message);
    case 'held':
      return failed('data', `another process uses ${problem.dataDir}`, 'stop it, or name another --data-dir');
    default:
      return failed('data', problem.message, problem.remedy);
  }
}
