import { productVersion } from '../app/version.ts';
import { askPerson } from './ask-person.ts';
import { runProgram } from './program.ts';

/** The program: runs the command line and ends the process with the command's exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  process.exitCode = await runProgram(argv, {
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    env: process.env,
    cwd: process.cwd(),
    version: productVersion(),
    ask: process.stdin.isTTY === true && process.stderr.isTTY === true ? askPerson : null,
  });
}
