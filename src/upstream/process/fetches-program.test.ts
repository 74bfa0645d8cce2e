import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StdioSpec } from '../../model/server.ts';
import { fetchesProgram } from './fetches-program.ts';

function fetches(line: string): boolean {
  const [command, ...args] = line.split(' ');
  const spec: StdioSpec = { type: 'stdio', command: command!, args, env: {}, inheritEnv: false, cwd: '/' };
  return fetchesProgram(spec);
}

test('commands that fetch what they run are known, with and without a path', () => {
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
