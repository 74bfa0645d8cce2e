import type { TestEvent } from 'node:test/reporters';

/** A reporter of the test runner's: the files in which a test failed, one a line. */
export default async function* failedFiles(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const told = new Set<string>();
  for await (const { type, data } of source) {
    const file = type === 'test:fail' ? (data.file ?? data.name) : null;
    if (file === null || told.has(file)) continue;
    told.add(file);
    yield `${file}\n`;
  }
}
