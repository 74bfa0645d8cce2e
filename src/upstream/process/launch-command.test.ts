import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../model/secret.ts';
import type { StdioSpec } from '../../model/server.ts';
import { missingVariables } from './launch-command.ts';

function specOf(command: string, args: readonly string[], changes: Partial<StdioSpec> = {}): StdioSpec {
  return { type: 'stdio', command, args, env: {}, inheritEnv: false, cwd: '/', ...changes };
}

test('S1.19 names that a container or the definition wants handed on, and that are not set, are found', () => {
  const args = ['run', '-i', '-e', 'HERE', '-e', 'GONE', '--env=ALSO_GONE', '-e', 'SET=x', '-e', 'DECLARED', 'image'];
  const own = { HERE: '1', PATH: '/bin', LISTED: '' };
  const env = { DECLARED: new Secret('y') };
  // What is not inherited is not handed on, though it is set.
  assert.deepEqual(missingVariables(specOf('/usr/bin/docker', args, { env }), own), ['ALSO_GONE', 'GONE', 'HERE']);
  const inheriting = specOf('docker', args, { env, inheritEnv: ['HERE', 'LISTED', 'NOWHERE'] });
  assert.deepEqual(missingVariables(inheriting, own), ['ALSO_GONE', 'GONE', 'NOWHERE']);
  assert.deepEqual(missingVariables(specOf('node', args), own), []);
});
