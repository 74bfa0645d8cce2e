import assert from 'node:assert/strict';

/** What the answer to a mistake must contain: cause, place and remedy. */
export interface Held {
  readonly cause: RegExp;
  readonly place: RegExp;
  readonly remedy: RegExp;
}

/** What no answer may contain: stack traces and error texts of JavaScript. */
const NEVER = [
  /^\s+at .+:\d+:\d+\)?$/m,
  /internal error/i,
  /\[object /,
  /\bundefined\b/,
  /TypeError|ReferenceError|RangeError/,
];

/** Asserts that the answer is one for a beginner. */
export function assertHelpful(mistake: string, answer: string, { cause, place, remedy }: Held): void {
  for (const never of NEVER) assert.doesNotMatch(answer, never, mistake);
  for (const [what, pattern] of Object.entries({ cause, place, remedy })) {
    assert.match(answer, pattern, `${mistake}: no ${what} in:\n${answer}`);
  }
}
