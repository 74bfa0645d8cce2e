import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const module = (name: string): string => JSON.stringify(resolve(import.meta.dirname, name));
const FACTOR = /\[GlobalMemoryController\] factor ([\d.]+)/g;

/**
 * By how much V8 says, at each of five collections, that the heap with what it holds outside may grow until the next one:
 * in a process of its own, which has done that before. To count how often V8 collects by itself would be to measure time.
 */
async function factorsAfter(what: string): Promise<string[]> {
  const program = `
    import { setFlagsFromString } from 'node:v8';
    import { collectGarbage } from ${module('garbage.ts')};
    import { dropKept, lend, letGo } from ${module('lent-memory.ts')};
    const comesBy = () => letGo(lend(1024 * 1024));
    ${what}
    setFlagsFromString('--trace-gc-verbose');
    for (let i = 0; i < 5; i++) collectGarbage('all');`;
  const flags = ['--external-memory-accounted-in-global-limit', '--input-type=module', '--eval'];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, program]);
  const factors = Array.from(stdout.matchAll(FACTOR), ([, factor]) => factor!);
  assert.ok(factors.length >= 5, stdout);
  return factors;
}

test('while large bodies come by memory may grow to three times before V8 goes through the heap', async () => {
  const may = async (what: string): Promise<string> => [...new Set(await factorsAfter(what))].join();
  assert.equal(await may('comesBy();'), '3.0');
  assert.equal(await may('comesBy(); comesBy(); dropKept(); comesBy();'), '3.0');
});

test('before large bodies come, and when nobody has needed them for a while, V8 grows the heap as it thinks right', async () => {
  // It reckons anew each time: at most four times, and a tenth where few objects are made.
  for (const what of ['', 'lend(1024 * 1024);', 'comesBy(); dropKept();', 'comesBy(); dropKept(); dropKept();']) {
    const factors = await factorsAfter(what);
    assert.ok(
      factors.some((factor) => factor !== '3.0'),
      `${what} ${factors.join()}`,
    );
  }
});
