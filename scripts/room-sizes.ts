import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const TESTS = /\.(test|contract)\.ts$/;

/** Lines and files of each room of `src`, without tests; files in `src` itself count as one room, and the last line is the sum. */
export function roomSizes(root: string): string {
  const sizes = new Map<string, { lines: number; files: number }>();
  const sum = { lines: 0, files: 0 };
  for (const path of globSync('src/**/*.ts', { cwd: root })) {
    if (TESTS.test(path)) continue;
    const parts = path.split('/');
    const room = parts.length > 2 ? parts[1]! : '(src)';
    const size = sizes.get(room) ?? { lines: 0, files: 0 };
    sizes.set(room, size);
    const lines = readFileSync(join(root, path), 'utf8').split('\n').length - 1;
    for (const one of [size, sum]) {
      one.lines += lines;
      one.files++;
    }
  }
  const rows = [...sizes].sort(([, a], [, b]) => b.lines - a.lines);
  return [...rows, ['sum', sum] as const]
    .map(
      ([room, { lines, files }]) => `${room.padEnd(12)}${`${lines}`.padStart(7)} lines${`${files}`.padStart(5)} files`,
    )
    .join('\n');
}
