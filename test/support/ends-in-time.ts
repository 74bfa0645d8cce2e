/**
 * Loaded before each test file by `npm test`: a file whose tests are done, or that goes on for far too long, ends all
 * the same, says what held it, and fails. The test runner itself waits for such a file for ever: one child process that
 * a failed test left open is enough.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { after } from 'node:test';

/** For what closes by itself once the last test is done. */
const GRACE_MS = 15_000;
/** A whole file; single tests are bounded by the runner, their hooks are not. */
const FILE_MS = 900_000;

setTimeout(() => endAll(`this file is not done after ${FILE_MS / 60_000} minutes`), FILE_MS).unref();
after(() => {
  setTimeout(() => endAll(`the tests are done for ${GRACE_MS / 1000} s, and the file goes on`), GRACE_MS).unref();
});

function endAll(why: string): never {
  const children = childProcesses();
  const resources = Object.entries(Object.groupBy(process.getActiveResourcesInfo(), (name) => name));
  console.error(
    [
      `LEFT OPEN  ${process.argv[1]}: ${why}`,
      `  held by: ${resources.map(([name, all]) => `${all!.length} ${name}`).join(', ')}`,
      ...children.map(({ pid, command }) => `  child process ${pid}: ${command}`),
      '  fix: close it where the test ends, also where the test fails (finally, or after)',
    ].join('\n'),
  );
  for (const { pid } of children) process.kill(pid, 'SIGKILL');
  process.exit(1);
}

function childProcesses(): { readonly pid: number; readonly command: string }[] {
  try {
    return readdirSync('/proc/self/task')
      .flatMap((task) => readFileSync(`/proc/self/task/${task}/children`, 'utf8').split(' '))
      .filter(Boolean)
      .map((pid) => ({
        pid: Number(pid),
        command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '),
      }));
  } catch {
    return []; // No /proc, or a child that ended meanwhile.
  }
}
