/**
 * `npm test` loads this before each test file: a file that goes on for far too long after its tests reports what held it,
 * kills all processes that it began, and fails. The test runner itself would wait for ever: one child process that a failed
 * test left open is enough. A file that exits before its tests are done fails. From the note that each file leaves here,
 * `scripts/file-watch.ts` finds files that cannot end themselves, and processes that are left when a file has ended.
 */
import { mkdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { isMainThread } from 'node:worker_threads';
import type { FileNote } from '../../scripts/file-watch.ts';
import { childrenOf, commandOf, idOf, killAll } from './processes.ts';

/**
 * Time for the work of the file after its tests, and for resources that then close by themselves. The hooks of the file run
 * after ours: a gateway that is stopped there waits up to 30 s for its calls, and some more for its servers.
 */
const GRACE_MS = Number(process.env['TRUNKLINE_TEST_GRACE_MS'] ?? 60_000);

// Threads that a test starts load this as well.
if (isMainThread && process.env['NODE_TEST_CONTEXT'] !== undefined) {
  leaveNote(process.env['TRUNKLINE_TEST_NOTES']);
  let done = false;
  // The runner would take the tests that ended before the exit for all tests of the file.
  process.once('exit', (code) => {
    if (done || code !== 0) return;
    console.error(`LEFT EARLY  ${process.argv[1]}: process.exit(0) was called before its tests were done`);
    process.exitCode = 1;
  });
  after(() => {
    done = true;
    setTimeout(() => endAll(`the tests are done for ${GRACE_MS / 1000} s, and the file goes on`), GRACE_MS).unref();
  });
}

function endAll(why: string): never {
  const begotten = childrenOf(process.pid).map(([pid]) => pid);
  const resources = Object.entries(Object.groupBy(process.getActiveResourcesInfo(), (name) => name));
  console.error(
    [
      `LEFT OPEN  ${process.argv[1]}: ${why}`,
      `  held by: ${resources.map(([name, all]) => `${all!.length} ${name}`).join(', ')}`,
      ...begotten.map((pid) => `  process ${pid}: ${commandOf(pid)}`),
      '  fix: close it where the test ends, also where the test fails (finally, or after)',
    ].join('\n'),
  );
  killAll(begotten);
  process.exit(1);
}

function leaveNote(folder: string | undefined): void {
  const id = idOf(process.pid);
  if (folder === undefined || id === null) return;
  const note: FileNote = {
    file: process.argv[1] ?? '',
    id,
    at: performance.timeOrigin,
    outputs: [1, 2].flatMap((fd) => linkOf(`/proc/self/fd/${fd}`) ?? []),
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${process.pid}.json`), JSON.stringify(note));
}

function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null; // No /proc.
  }
}
