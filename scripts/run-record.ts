import { relative, resolve } from 'node:path';
import type { TestEvent } from 'node:test/reporters';

/** One test, or one suite that has a test which ran, as a line of JSON in the record of a run. */
export interface Ran {
  readonly file: string;
  readonly title: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  /** Why it was skipped, or how it failed. */
  readonly reason: string;
}

/**
 * A reporter for the test runner: what became of each test. A suite is recorded as passed only where a test in it ran:
 * the runner itself reports a suite of skipped tests as passed, and a file that exits before its tests end.
 */
export default async function* runRecord(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  /** By file: the nesting levels below which a test ran since the last suite of that level ended. */
  const ranBelow = new Map<string, Set<number>>();
  for await (const { type, data } of source) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const file = data.file ?? data.name;
    if (type === 'test:pass' && data.nesting === 0 && resolve(data.name) === resolve(file)) {
      const reason = 'no test of the file has ended: it has none, or calls process.exit';
      yield line({ file, title: data.name, outcome: 'failed', reason });
      continue;
    }
    const levels = ranBelow.get(file) ?? new Set<number>();
    ranBelow.set(file, levels);
    const ranInside = levels.delete(data.nesting);
    const skip = data.skip ?? data.todo;
    let outcome: Ran['outcome'] = type === 'test:fail' ? 'failed' : 'passed';
    if (skip !== undefined && skip !== false) outcome = 'skipped';
    else if (data.details?.type === 'suite' && !ranInside && outcome === 'passed') continue;
    if (outcome !== 'skipped') for (let above = data.nesting - 1; above >= 0; above--) levels.add(above);
    let reason = typeof skip === 'string' ? skip : '';
    if (type === 'test:fail' && outcome === 'failed') reason = briefly(data.details.error);
    yield line({ file, title: data.name, outcome, reason });
  }
}

function line(ran: Ran): string {
  return `${JSON.stringify({ ...ran, file: relative(process.cwd(), ran.file) })}\n`;
}

/** What the test threw, on one line; the runner wraps it in an error of its own. */
function briefly(error: Error): string {
  const thrown = error.cause instanceof Error ? error.cause.message : String(error.cause ?? error.message);
  return thrown.replaceAll(/\s+/g, ' ').slice(0, 200);
}
