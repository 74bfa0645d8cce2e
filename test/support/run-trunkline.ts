import { type ChildProcess, spawn } from 'node:child_process';
import { resolve } from 'node:path';

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');
/** A gateway of the built package can run on another Node than its test. */
const NODE = process.env['TRUNKLINE_TEST_NODE'] ?? process.execPath;

/**
 * The environment of a gateway that a test starts: if the test gives it no home, the gateway keeps user state in a folder of
 * the test run and not in the folder of the user who runs the tests.
 */
export function environmentOf(env: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const state = process.env['TRUNKLINE_TEST_STATE'];
  return { ...process.env, ...(state === undefined || 'HOME' in env ? {} : { XDG_STATE_HOME: state }), ...env };
}

export interface CommandRun {
  readonly process: ChildProcess;
  /** What it wrote so far. */
  out: string;
  err: string;
  readonly exited: Promise<number | null>;
}

/** One `trunkline …` as a person types it, standard input closed unless `input` is set. */
export function startTrunkline(
  args: readonly string[],
  options: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv; readonly input?: boolean; readonly uid?: number },
): CommandRun {
  const child = spawn(NODE, [BIN, ...args], {
    cwd: options.cwd,
    env: environmentOf(options.env),
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
    stdio: [options.input === true ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise<number | null>((done) => child.once('close', (code) => done(code)));
  const run: CommandRun = { process: child, out: '', err: '', exited };
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    run.out += text;
  });
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    run.err += text;
  });
  return run;
}

export async function trunkline(
  args: readonly string[],
  options: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv; readonly uid?: number },
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const run = startTrunkline(args, options);
  const code = await run.exited;
  return { code, out: run.out, err: run.err };
}

/** Waits for the text in what the command writes to standard output. */
export async function said(run: CommandRun, text: string | RegExp, waitMs = 20_000): Promise<void> {
  const end = performance.now() + waitMs;
  while (!(typeof text === 'string' ? run.out.includes(text) : text.test(run.out))) {
    if (performance.now() > end) throw new Error(`the command did not write ${text}:\n${run.out}\n${run.err}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}
