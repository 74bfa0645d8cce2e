import { productVersion } from '../app/version.ts';
import { askPerson } from './ask-person.ts';
import { runProgram } from './program.ts';

/** The program: runs the command line and ends the process with the command's exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  // Whoever read our words may be gone. Without a listener each lost word would be an uncaught exception, whose report is
  // a lost word again: the process would spin and never drain.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  process.exitCode = await runProgram(argv, {
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    env: process.env,
    cwd: process.cwd(),
    version: productVersion(),
    ask: process.stdin.isTTY === true && process.stderr.isTTY === true ? askPerson : null,
  });
}
