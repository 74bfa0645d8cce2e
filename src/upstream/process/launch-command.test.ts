import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../model/secret.ts';
import type { StdioSpec } from '../../model/server.ts';
import { missingVariables, shownArguments } from './launch-command.ts';

function specOf(command: string, args: readonly string[], changes: Partial<StdioSpec> = {}): StdioSpec {
  return { type: 'stdio', command, args, env: {}, inheritEnv: false, cwd: '/', ...changes };
}

test('S1.19 arguments are shown without values that may be secret, and otherwise as they are', () => {
  const shown = (...args: string[]) => shownArguments(args, (text) => text.replaceAll('known-secret', '*'));
  assert.deepEqual(shown('run', '-i', '--rm', '--port=80', '-y', '@scope/server'), [
    ...['run', '-i', '--rm', '--port=80', '-y', '@scope/server'],
  ]);
  assert.deepEqual(shown('-e', 'A=b=c', '-e', 'NAME', '--env', 'X=1', '--env=Y=2'), [
    ...['-e', 'A=[redacted]', '-e', 'NAME', '--env', 'X=[redacted]', '--env=Y=[redacted]'],
  ]);
  assert.deepEqual(shown('--api-key=abc', '--token', 'abc', '--password', '--verbose', 'GH_TOKEN=x'), [
    ...['--api-key=[redacted]', '--token', '[redacted]', '--password', '--verbose', 'GH_TOKEN=[redacted]'],
  ]);
  assert.deepEqual(shown('postgres://me:pw@db/x', '--db=postgres://me:pw@db/x', 'say known-secret'), [
    ...['postgres://[redacted]@db/x', '--db=postgres://[redacted]@db/x', 'say *'],
  ]);
});

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
