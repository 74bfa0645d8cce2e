import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { loadConfig } from '../load-config.ts';
import { renderProblem } from '../problem/problem.ts';

const FIXTURES = join(import.meta.dirname, '../../../test/fixtures/config');
const SEEDS = [
  ['trunkline.json', readFileSync(join(FIXTURES, 'claude/.mcp.json'), 'utf8')],
  ['mcp.json', readFileSync(join(FIXTURES, 'vscode/.vscode/mcp.json'), 'utf8')],
  ['trunkline.yaml', readFileSync(join(FIXTURES, 'own/trunkline.yaml'), 'utf8')],
  ['config.toml', readFileSync(join(FIXTURES, 'codex/.codex/config.toml'), 'utf8')],
] as const;
const MAX_BYTES = 4 * 1024 * 1024;
/** Far above what any of these takes on a quiet machine (most are below 0.5 s); the mission's bound is 5 s. */
const BOUND_MS = 5000;

let folder = '';
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'tl-fuzz-'));
});
after(() => rmSync(folder, { recursive: true }));

async function load(file: string, content: string | Uint8Array) {
  writeFileSync(join(folder, file), content);
  const result = await loadConfig({ files: [file], cwd: folder, env: { HOME: folder, A: 'b' }, strict: true });
  // Every problem can be printed, and has a position in the file if it is about one.
  for (const problem of [...(result.ok ? [] : result.problems), ...result.warnings]) {
    assert.ok(renderProblem(problem, folder).startsWith(problem.code));
    assert.ok(problem.line >= 0 && problem.column >= 0);
  }
  return result;
}

const files = fc.constantFrom('trunkline.json', 'mcp.json', 'trunkline.yaml', 'config.toml', 'mcp');
const punctuation = fc.string({ unit: fc.constantFrom(...'{}[]":,\'#&*!|>-=.$\\ \n\tab0'), maxLength: 200 });

test('any text is read or refused, and never throws', async () => {
  const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 300 }), punctuation);
  await fc.assert(
    fc.asyncProperty(files, text, async (file, content) => void (await load(file, content))),
    { numRuns: 600 },
  );
});

test('any bytes are read or refused', async () => {
  const bytes = fc.uint8Array({ maxLength: 200 });
  await fc.assert(
    fc.asyncProperty(files, bytes, async (file, content) => void (await load(file, content))),
    { numRuns: 100 },
  );
});

test('a good file with a piece cut out, put in or doubled is read or refused', async () => {
  const mutation = fc.record({
    seed: fc.constantFrom(...SEEDS),
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    cut: fc.nat(40),
    put: fc.oneof(
      punctuation,
      fc.constantFrom('null', '${', '${A}', '"', '<<: *remote', '"__proto__": {}', '\ufeff', '\u0000'),
    ),
    times: fc.integer({ min: 1, max: 3 }),
  });
  await fc.assert(
    fc.asyncProperty(mutation, async ({ seed: [file, text], at, cut, put, times }) => {
      const start = Math.floor(at * text.length);
      await load(file, text.slice(0, start) + put.repeat(times) + text.slice(start + cut));
    }),
    { numRuns: 600 },
  );
});

const M = MAX_BYTES - 100;
const HOSTILE: readonly [name: string, file: string, text: () => string][] = [
  ['open brackets', 'a.json', () => '['.repeat(M)],
  ['commas', 'a.json', () => `[${','.repeat(M)}`],
  ['numbers', 'a.json', () => `{"a":[${'1,'.repeat(M / 2 - 10)}1]}`],
  ['as many numbers as are accepted', 'a.json', () => `{"a":[${'1,'.repeat(499_000)}1]}`],
  ['one string', 'a.json', () => `{"a":"${'x'.repeat(M - 20)}"}`],
  ['keys that look like secrets', 'a.json', () => `{${'"token":"'.repeat(M / 10)}`],
  ['hyphens', 'a.json', () => '-'.repeat(M)],
  ['flags that look like secrets', 'a.yaml', () => '--token '.repeat(M / 8)],
  ['carriage returns', 'a.yaml', () => `{${'\r'.repeat(M - 10)}x`],
  ['references that are never closed', 'a.json', () => `{"mcpServers":{"a":{"command":"${'${'.repeat(M / 2 - 30)}"}}}`],
  [
    'inputs that are never closed',
    'a.json',
    () => `{"mcpServers":{"a":{"command":"${'${input:'.repeat(M / 8 - 30)}"}}}`,
  ],
  ['references', 'a.json', () => `{"mcpServers":{"a":{"command":"${'${A}'.repeat(M / 4 - 30)}"}}}`],
  ['dashes', 'a.yaml', () => '- '.repeat(M / 2)],
  ['fewer dashes', 'a.yaml', () => '- '.repeat(60_000)],
  ['quotes', 'a.yaml', () => '"'.repeat(190_000)],
  ['tags', 'a.yaml', () => '!a '.repeat(60_000)],
  ['colons', 'a.yaml', () => ': '.repeat(90_000)],
  ['aliases', 'a.yaml', () => `a: &a 1\nb: [${'*a,'.repeat(45_000)}]`],
  [
    'nested aliases',
    'a.yaml',
    () => Array.from({ length: 30 }, (_, i) => `a${i}: &a${i} [${i ? `*a${i - 1}, `.repeat(9) : '1'}]`).join('\n'),
  ],
  ['a long folded scalar', 'a.yaml', () => `a: >\n${'  x\n'.repeat(M / 4 - 10)}`],
  ['indentation', 'a.yaml', () => Array.from({ length: 2000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n')],
  ['keys', 'a.toml', () => Array.from({ length: 49_000 }, (_, i) => `k${i} = 1`).join('\n')],
  ['too many keys', 'a.toml', () => 'a = 1\n'.repeat(M / 6)],
  ['a dotted key', 'a.toml', () => `a${'.a'.repeat(M / 2 - 10)} = 1`],
  ['blanks', 'a.toml', () => `a${' '.repeat(M - 10)}= 1`],
  ['long lines', 'a.toml', () => `${'x'.repeat(4095)}\n`.repeat(M / 4096)],
  ['tables', 'a.toml', () => '[[a]]\n'.repeat(49_000)],
  ['nested inline tables', 'a.toml', () => `a = ${'{a='.repeat(100_000)}`],
];

for (const [name, file, text] of HOSTILE) {
  test(`a hostile document of ${name} (${file}) takes bounded time`, async () => {
    const content = text();
    // Processor time, not wall time: other work on the machine must not decide.
    const before = process.cpuUsage();
    await load(file, content);
    const { user, system } = process.cpuUsage(before);
    const tookMs = (user + system) / 1000;
    assert.ok(tookMs < BOUND_MS, `took ${Math.round(tookMs)} ms of processor time`);
  });
}
