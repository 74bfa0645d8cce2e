import { productVersion } from '../app/version.ts';
import type { InputPrompt } from '../config/document/inputs.ts';
import { runProgram } from './program.ts';

const LONG_MS = 3_600_000;

/** The program: runs the command line and ends the process with the command's exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  // The reader of the output may be gone. Without a listener each failed write would be an uncaught exception, and its report
  // another failed write: the process would spin and never drain.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  // Timers of the gateway hold no process: a command that waits for nothing else, as a login with a code does, would end.
  const held = setInterval(() => {}, LONG_MS);
  try {
    process.exitCode = await runProgram(argv, {
      out: (text) => process.stdout.write(text),
      err: (text) => process.stderr.write(text),
      env: process.env,
      cwd: process.cwd(),
      version: productVersion(),
      ask: process.stdin.isTTY === true && process.stderr.isTTY === true ? askPerson : null,
    });
  } finally {
    clearInterval(held);
  }
}

/** Asks on the terminal; what is typed for a password is not shown. */
const askPerson: InputPrompt = async ({ id, description, password, signal }) => {
  const { createInterface } = await import('node:readline/promises');
  const { Writable } = await import('node:stream');
  let hidden = false;
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (!hidden) process.stderr.write(chunk);
      done();
    },
  });
  const terminal = createInterface({ input: process.stdin, output, terminal: true });
  try {
    const answer = terminal.question(`${description} (${id}): `, signal === undefined ? {} : { signal });
    hidden = password;
    return await answer;
  } finally {
    terminal.close();
    if (password) process.stderr.write('\n');
  }
};
