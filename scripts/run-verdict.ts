import { idsIn } from '../test/e2e/citations.ts';
import type { Ran } from './run-record.ts';

/** The requirements that a run has not proven, as text, and whether the run fails for them. */
export interface RunVerdict {
  readonly lines: readonly string[];
  readonly fails: boolean;
}

/**
 * Requirements are proven by tests that ran, not by titles. `required`: the ids that tests must have proven, none for a
 * run of a part of the tests. A row of the mission without a test that ran fails the run; any other id fails it where
 * `strict` (CI, where all that tests need is installed).
 */
export function runVerdict(ran: readonly Ran[], required: readonly string[], strict: boolean): RunVerdict {
  const proven = new Set(ran.filter(({ outcome }) => outcome !== 'skipped').flatMap(({ title }) => idsIn(title)));
  const missing = required.filter((id) => !proven.has(id));
  const skipped = ran.filter(({ outcome }) => outcome === 'skipped');
  const lines = skipped.map(({ file, title, reason }) => `  ${file}: ${title}${reason && ` (${reason})`}`);
  if (skipped.length > 0) lines.unshift(`SKIPPED: ${skipped.length} tests did not run; they prove nothing:`);
  if (missing.length > 0) lines.push(`NOT PROVEN: no test that cites these ran: ${missing.join(' ')}`);
  return { lines, fails: missing.some((id) => strict || id.startsWith('S')) };
}
