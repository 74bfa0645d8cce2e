import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { ExecSpec } from '../model/credentials.ts';
import { isObject } from '../model/json-object.ts';
import { printable } from '../model/printable.ts';
import type { ProcessGuard } from '../model/process-guard.ts';
import { headerComplaint } from '../model/request-headers.ts';
import { SanitizedText } from '../model/sanitized-text.ts';
import { revealed } from '../model/secret.ts';

/** The result of a credential program. */
export interface ExecAnswer {
  /** Header names and values, alternating. */
  readonly headers: readonly string[];
  /** Wall clock; null if the credential does not expire. */
  readonly expiresAt: number | null;
}

/** Why there is no credential, for people. Does not contain the output of the program. */
export class ExecFailure extends Error {}

const MAX_OUTPUT_BYTES = 256 * 1024;
const MAX_STDERR_BYTES = 8 * 1024;
const MAX_HEADERS = 32;
const MAX_LINE = 200;

/** Explanations of error codes of `spawn`. */
const NOT_STARTED: Readonly<Record<string, string>> = {
  ENOENT: 'FILE was not found; correct "command" or PATH, or the first line of the script',
  EACCES: 'may not be executed by the user of the gateway: chmod +x FILE',
};

/**
 * Runs the program once, with the question as one line of JSON on standard input and the answer as JSON on standard output. The
 * program gets its own process group, which is killed at the timeout and with the gateway. Rejects with ExecFailure.
 */
export async function askProgram(
  spec: ExecSpec,
  environment: Readonly<Record<string, string>>,
  question: object,
  guard: ProcessGuard,
  signal: AbortSignal,
): Promise<ExecAnswer> {
  if (signal.aborted) throw new ExecFailure('its credential program was not asked, the gateway ends');
  return answerIn(await outputOf(spec, environment, `${JSON.stringify(question)}\n`, guard, signal));
}

function outputOf(
  spec: ExecSpec,
  environment: Readonly<Record<string, string>>,
  input: string,
  guard: ProcessGuard,
  signal: AbortSignal,
): Promise<string> {
  const { command, args, cwd, timeoutMs } = spec;
  const secrets = Object.values(revealed(spec.env));
  return new Promise((resolve, reject) => {
    const env = { ...environment, ...revealed(spec.env) };
    const child = guard.start((mark) =>
      spawn(command, args, { cwd, env: { ...env, ...mark }, stdio: 'pipe', detached: true }),
    );
    const out: Buffer[] = [];
    let bytes = 0;
    let stderr = Buffer.alloc(0);
    const fail = (why: string): void => {
      const line = lastLine(stderr.toString(), secrets);
      reject(new ExecFailure(`its credential program ${why}${line === '' ? '' : `: ${line}`}`));
    };
    const kill = (): void => {
      try {
        process.kill(-child.pid!, 'SIGKILL');
      } catch {
        // The process has ended meanwhile.
      }
    };
    const late = setTimeout(() => {
      fail(`did not answer within ${timeoutMs} ms`);
      kill();
    }, timeoutMs);
    signal.addEventListener('abort', kill, { once: true });
    const over = (): void => {
      clearTimeout(late);
      signal.removeEventListener('abort', kill);
      if (child.pid !== undefined) guard.unregister(child.pid);
    };
    child.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      over();
      fail(NOT_STARTED[code ?? '']?.replace('FILE', () => command) ?? `could not be started (${message})`);
    });
    // Without a free descriptor the child has no streams, and the error follows.
    if ((child.stdout as Readable | undefined) === undefined) return;
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= MAX_OUTPUT_BYTES) return void out.push(chunk);
      fail(`printed more than ${MAX_OUTPUT_BYTES / 1024} KiB`);
      kill();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr = Buffer.concat([stderr, chunk]).subarray(-MAX_STDERR_BYTES);
    });
    child.on('close', (code, by) => {
      over();
      if (code === 0) resolve(Buffer.concat(out).toString());
      else fail(by === null ? `exited with code ${code}` : `was ended by ${by}`);
    });
    // The program need not read its input.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}

/** The last line of standard error, without what looks like a secret. */
function lastLine(stderr: string, secrets: readonly string[]): string {
  const line = stderr.trimEnd().split('\n').at(-1)!.trim();
  const sanitized = new SanitizedText(line, secrets, null, false).words(false).toString();
  return printable(sanitized).slice(0, MAX_LINE);
}

function answerIn(output: string): ExecAnswer {
  const bad = (why: string): ExecFailure => new ExecFailure(`its credential program printed ${why}`);
  let said: unknown;
  try {
    said = JSON.parse(output);
  } catch {
    throw bad('no JSON on its output');
  }
  if (typeof said !== 'object' || said === null) throw bad('no JSON object');
  const { headers = {}, token, expiresAt = null } = said as Readonly<Record<string, unknown>>;
  if (!isObject(headers)) throw bad('"headers" that are no map');
  const all = Object.entries(headers);
  if (token === '') throw bad('an empty "token"');
  if (token !== undefined) all.push(['Authorization', typeof token === 'string' ? `Bearer ${token}` : null]);
  if (all.length === 0) throw bad('neither "headers" nor "token"');
  if (all.length > MAX_HEADERS) throw bad(`more than ${MAX_HEADERS} headers`);
  const seen = new Map<string, string>();
  const flat: string[] = [];
  for (const [name, value] of all) {
    const complaint = typeof value === 'string' ? headerComplaint(name, value, seen) : 'is no text';
    if (complaint !== null) throw bad(`a header that cannot be sent: it ${complaint}`);
    seen.set(name.toLowerCase(), name);
    flat.push(name, (value as string).trim());
  }
  const end = typeof expiresAt === 'string' ? Date.parse(expiresAt) : Number.NaN;
  if (expiresAt !== null && Number.isNaN(end)) throw bad('an "expiresAt" that is no time such as 2026-01-31T12:00:00Z');
  return { headers: flat, expiresAt: expiresAt === null ? null : end };
}
