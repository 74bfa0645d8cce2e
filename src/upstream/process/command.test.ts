import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { StdioSpec } from '../../model/server.ts';
import { fetchesProgram, resolveCommand } from './command.ts';

const folder = mkdtempSync(join(tmpdir(), 'trunkline-command-'));
const closed = join(folder, 'closed');
const open = join(folder, 'open');
mkdirSync(closed);
mkdirSync(open);
for (const file of [join(closed, 'tool'), join(open, 'other')]) writeFileSync(file, '#!/bin/sh\n', { mode: 0o755 });
writeFileSync(join(open, 'plain'), 'text', { mode: 0o644 });
chmodSync(folder, 0o755);
chmodSync(closed, 0o000);
after(() => {
  chmodSync(closed, 0o755);
  rmSync(folder, { recursive: true });
});

/** Root may search every folder, so the test looks as an unprivileged user. */
async function asUser<T>(work: () => Promise<T>): Promise<T> {
  if (process.getuid!() !== 0) return work();
  process.seteuid!(65_534);
  try {
    return await work();
  } finally {
    process.seteuid!(0);
  }
}

const found = (command: string, path = `${closed}:${open}`) =>
  asUser(() => resolveCommand('s', { command, cwd: '/' }, { PATH: path }));

test('S1.19 the search skips a folder of PATH that this user may not read', async () => {
  assert.equal(await found('other'), join(open, 'other'));
  await assert.rejects(found('mistyped'), /the command "mistyped" is not on the PATH/);
  await assert.rejects(found('plain'), /open\/plain is not executable; run "chmod \+x"/);
  await assert.rejects(found(join(closed, 'tool')), /may not search a folder on the path to .*closed\/tool/);
  await assert.rejects(found(open), /is a folder/);
});

test('on Windows npx is npx.cmd, not the script for other systems beside it', async () => {
  for (const name of ['npx', 'npx.cmd']) writeFileSync(join(open, name), '', { mode: 0o755 });
  const spec = { command: 'npx', cwd: '/' };
  assert.equal(await resolveCommand('s', spec, { PATH: open }, 'win32'), join(open, 'npx.cmd'));
  assert.equal(
    await resolveCommand('s', { ...spec, command: 'npx.cmd' }, { PATH: open }, 'win32'),
    join(open, 'npx.cmd'),
  );
  assert.equal(await resolveCommand('s', spec, { PATH: open }), join(open, 'npx'));
});

function fetches(line: string): boolean {
  const [command, ...args] = line.split(' ');
  const spec: StdioSpec = { type: 'stdio', command: command!, args, env: {}, inheritEnv: false, cwd: '/' };
  return fetchesProgram(spec);
}

test('the gateway recognises commands that fetch their program, with and without a path', () => {
  for (const line of [
    'npx -y some-server',
    '/usr/local/bin/npx some-server',
    'uvx some-server@latest --flag',
    'npm exec some-server',
    'npm --silent x some-server',
    'pnpm dlx some-server',
    'uv run --with mcp server.py',
    'uv tool run some-server',
    'bun x some-server',
    'docker run -i --rm some/server',
  ]) {
    assert.ok(fetches(line), line);
  }
  for (const line of [
    'node server.js',
    'npm start',
    'docker exec -i box server',
    'python -m npx',
    './npx-server',
    'uv',
  ]) {
    assert.ok(!fetches(line), line);
  }
});
