import { spawn } from 'node:child_process';

export interface ProgramRun {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs a program to its end, with nothing on its standard input. It is killed after `atMostMs`. */
export function runProgram(
  [command, ...args]: readonly [string, ...string[]],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv; readonly atMostMs?: number } = {},
): Promise<ProgramRun> {
  const { atMostMs, ...rest } = options;
  const child = spawn(command, args, {
    ...rest,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(atMostMs === undefined ? {} : { timeout: atMostMs, killSignal: 'SIGKILL' as const }),
  });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  return new Promise((done, fail) => {
    child.once('error', fail);
    child.once('close', (code) => done({ code, out, err }));
  });
}
