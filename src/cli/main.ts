import { productVersion } from '../app/version.ts';
import type { InputPrompt } from '../config/document/inputs.ts';
import { runProgram } from './program.ts';

const LONG_MS = 3_600_000;

/** Entry point: runs the command line and sets the command's exit code as that of the process. */
export async function main(argv: readonly string[]): Promise<void> {
  // The reader of the output may have closed it. Without a listener each failed write would raise an uncaught exception, whose
  // report is another failed write: the process would loop and never drain.
  process.stderr.on('error', () => {});
  let lost: NodeJS.ErrnoException | null = null;
  process.stdout.on('error', (error) => {
    lost ??= error;
  });
  // The gateway unrefs its timers: without this one, the process would exit during a wait, as of a login with a code.
  const held = setInterval(() => {}, LONG_MS);
  try {
    process.exitCode = await runProgram(argv, {
      out: (text) => process.stdout.write(text),
      err: (text) => process.stderr.write(text),
      // The stream emits the error of a write after its callback.
      written: () => new Promise((done) => process.stdout.write('', () => setImmediate(() => done(lost)))),
      env: process.env,
      cwd: process.cwd(),
      version: productVersion(),
      ask: process.stdin.isTTY === true && process.stderr.isTTY === true ? askPerson : null,
    });
  } finally {
    clearInterval(held);
  }
}

/** Asks on the terminal; does not echo a password. */
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
  // Ctrl-C ends the process as it does without a question.
  terminal.once('SIGINT', () => {
    terminal.close();
    process.kill(process.pid, 'SIGINT');
  });
  try {
    const answer = terminal.question(`${description} (${id}): `, signal === undefined ? {} : { signal });
    hidden = password;
    // Ctrl-D and the signal end it without an answer.
    return await answer.catch(() => '');
  } finally {
    terminal.close();
    if (password) process.stderr.write('\n');
  }
};
