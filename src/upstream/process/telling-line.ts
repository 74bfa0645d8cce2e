/** What `printable` makes of the escape sequences that colour a terminal. */
const COLOURS = /\\x1b\[[0-9;]*m/g;
/** Beside the message itself: the end of Node's and Go's reports, npm's hints, Docker's advice, rules and brackets. */
const NOISE =
  /^(?:\W*|Node\.js v[\d.]+|goroutine \d.*|exit status \d+|Traceback .*|Require stack:|- \/.*|(?:Run|See) '.*|hint: .*|note: .*|During handling of .*|npm warn .*)$/;
const NPM = /^npm (?:error|ERR!)(?: |$)/;
/** The details that npm prints before it says what is wrong. */
const NPM_DETAIL = /^(?:code|syscall|errno|path|dest|command|cwd|signal|A complete log) /;
const FAILURE =
  /^× |error|exception|panic|fatal|fail|cannot|can't|could not|unable|denied|refused|not found|no such|no module|required|missing|invalid|unknown|must/i;
const CAUSE = /^\s*(?:cause: |Caused by: |╰─▶ |\[cause\]: )(.+)/;
/** What uv before 0.6 cuts into lines of 80 characters. */
const WRAPPED = /╰─▶ .*(?:\n {6}\S.*)*/g;
/** It was told to end: nothing that it wrote says why. */
const KILLED = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP']);
const MAX_CHARACTERS = 300;

/**
 * The line of a program's standard error that says why it ended, picked from what people are shown of it; null where
 * there is none. Of an exception it is the message, not the last frame; of npm the first complaint, not the last hint.
 */
export function tellingLine(stderr: string, code: number | null, signal: string | null): string | null {
  if (signal !== null && KILLED.has(signal)) return null;
  const unwrapped = stderr.replace(COLOURS, '').replace(WRAPPED, (reason) => reason.replace(/\n\s+/g, ' '));
  const lines = unwrapped.split('\n').map(plain);
  const npm = lines.findIndex((line) => NPM.test(line) && !NPM_DETAIL.test(line.replace(NPM, '')));
  const worded = (line: string): boolean => !/^\s/.test(line) && !NOISE.test(line);
  const failed = lines.findLastIndex((line) => worded(line) && FAILURE.test(line));
  const last = code === 0 || code === null ? -1 : Math.max(lines.findLastIndex(worded), lastOf(lines));
  const found = npm >= 0 ? npm : failed >= 0 ? failed : last;
  const line = lines[found]?.replace(NPM, '').replace(/^× /, '').trim();
  if (line === undefined) return null;
  const cause = lines.slice(found + 1).find((after) => CAUSE.test(after));
  const whole = cause === undefined ? line : `${line.replace(/:$/, '')}: ${CAUSE.exec(cause)![1]}`;
  return whole.length > MAX_CHARACTERS ? `${whole.slice(0, MAX_CHARACTERS)}…` : whole;
}

/** Without the margins of Python's exception groups and of uv. */
function plain(line: string): string {
  return line
    .replace(/^\s*\| ?/, '')
    .replace(/^\s*× /, '× ')
    .trimEnd();
}

/** The last line that says anything, where all lines are indented. */
function lastOf(lines: readonly string[]): number {
  return lines.findLastIndex((line) => !NOISE.test(line.trim()));
}
