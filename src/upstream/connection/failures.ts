import { GatewayError } from '../../model/gateway-error.ts';
import { messageOf } from '../../model/thrown.ts';
import type { HttpRefusal } from '../transport/http-refusal.ts';
import type { ClosedReason } from '../transport/transport.ts';

/** Terminal colour sequences as `printable` writes them. */
const COLOURS = /\\x1b\[[0-9;]*m/g;
/** Lines that are not the message: the end of Node's and Go's reports, npm's hints, Docker's advice, rules and brackets. */
const NOISE =
  /^(?:\W*|Node\.js v[\d.]+|goroutine \d.*|exit status \d+|Traceback .*|Require stack:|- \/.*|(?:Run|See) '.*|hint: .*|note: .*|During handling of .*|npm warn .*)$/;
const NPM = /^npm (?:error|ERR!)(?: |$)/;
/** Details that npm prints before the error message. */
const NPM_DETAIL = /^(?:code|syscall|errno|path|dest|command|cwd|signal|A complete log) /;
const FAILURE =
  /^× |error|exception|panic|fatal|fail|cannot|can't|could not|unable|denied|refused|not found|no such|no module|required|missing|invalid|unknown|must/i;
const CAUSE = /^\s*(?:cause: |Caused by: |╰─▶ |\[cause\]: )(.+)/;
/** A reason that uv before 0.6 wraps at 80 characters. */
const WRAPPED = /╰─▶ .*(?:\n {6}\S.*)*/g;
/** Signals after which the output does not explain the exit. */
const KILLED = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP']);
const MAX_CHARACTERS = 300;

/**
 * The line of standard error that best explains why the program ended; null if there is none. For an exception it is the
 * message, not the last frame; for npm the first error, not the last hint.
 */
export function diagnosticLine(stderr: string, code: number | null, signal: string | null): string | null {
  if (signal !== null && KILLED.has(signal)) return null;
  const unwrapped = stderr.replace(COLOURS, '').replace(WRAPPED, (reason) => reason.replace(/\n\s+/g, ' '));
  const lines = unwrapped.split('\n').map(plain);
  const npm = lines.findIndex((line) => {
    const said = NPM.test(line) ? line.replace(NPM, '').trim() : '';
    return said !== '' && !NPM_DETAIL.test(said);
  });
  const worded = (line: string): boolean => !/^\s/.test(line) && !NOISE.test(line);
  const failed = lines.findLastIndex((line) => worded(line) && FAILURE.test(line));
  const last = code === 0 || code === null ? -1 : Math.max(lines.findLastIndex(worded), lastOf(lines));
  const found = npm >= 0 ? npm : failed >= 0 ? failed : last;
  const line = lines[found]?.replace(NPM, '').replace(/^× /, '').trim();
  if (line === undefined) return null;
  const cause = lines.slice(found + 1).find((after) => CAUSE.test(after));
  return shortened(cause === undefined ? line : `${line.replace(/:$/, '')}: ${CAUSE.exec(cause)![1]}`);
}

/** A server's text for an error, which states, histories and logs keep. A copy: a slice would keep the whole text alive. */
export function shortened(text: string): string {
  return text.length > MAX_CHARACTERS ? `${Buffer.from(text.slice(0, MAX_CHARACTERS))}…` : text;
}

/** Removes the margins of Python's exception groups and of uv. */
function plain(line: string): string {
  return line
    .replace(/^\s*\| ?/, '')
    .replace(/^\s*× /, '× ')
    .trimEnd();
}

/** The last line with content, for output whose lines are all indented. */
function lastOf(lines: readonly string[]): number {
  return lines.findLastIndex((line) => !NOISE.test(line.trim()));
}

/** Converts an error that occurred before anything was sent into a failure of this server. */
export function asGatewayError(error: unknown, server: string): GatewayError {
  if (error instanceof GatewayError) return error;
  const text = messageOf(error);
  return new GatewayError('INTERNAL', text, { server, outcome: 'NOT_SENT', cause: error });
}

const ASKS = 'asks for credentials';
const FORBIDS = 'refuses this caller (403)';

/** The error for a connection that ended; calls that wait for the next one were not sent. `stderr`: tail of the process's. */
export function closedError(server: string, reason: ClosedReason, stderr = ''): GatewayError {
  switch (reason.kind) {
    case 'exited': {
      const line = diagnosticLine(stderr, reason.code, reason.signal);
      const said = line === null ? '' : `: ${line}`;
      const text = `the process of ${server} ${exit(reason.code, reason.signal)}${said}`;
      return new GatewayError('NOT_SENT', text, { server });
    }
    case 'session_lost':
      return new GatewayError('NOT_SENT', `${server} no longer knows our session`, { server });
    case 'auth_required':
      return new GatewayError('AUTH_REQUIRED', `${server} ${reason.status === 403 ? FORBIDS : ASKS}`, {
        server,
        cause: { status: reason.status ?? 401, challenge: reason.challenge } satisfies HttpRefusal,
      });
    case 'unreachable':
    case 'protocol': {
      const { error } = reason;
      return new GatewayError(error.code, error.message, { server, outcome: 'NOT_SENT', cause: error });
    }
  }
}

function exit(code: number | null, signal: string | null): string {
  if (signal !== null) return `was ended by ${signal}`;
  return code === null ? 'ended' : `exited with code ${code}`;
}

/** A server of the stateless era does not accept `initialize` too. Nothing of a call was sent. */
export class EraUnsupported extends GatewayError {
  /** The server refused explicitly; otherwise it may be temporary, and `initialize` is tried again after the next start. */
  readonly permanent: boolean;

  constructor(server: string, why: string, permanent: boolean) {
    super('NOT_SENT', `${server} did not accept initialize: ${why}`, { server });
    this.permanent = permanent;
  }
}
