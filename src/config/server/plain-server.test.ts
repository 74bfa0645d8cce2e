import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SERVER_NAME_PATTERN } from '../../model/names.ts';
import { argvServer } from './plain-server.ts';
import { serverNameOf } from './server-names.ts';

test('the words become the command and its arguments, unchanged', () => {
  const { transport } = argvServer(['./run', '${HOME}', '$x', '-y'], '/srv')!;
  assert.deepEqual(transport, {
    type: 'stdio',
    command: '/srv/run',
    args: ['${HOME}', '$x', '-y'],
    env: {},
    inheritEnv: true,
    cwd: '/srv',
  });
});

test('without words there is no server', () => {
  assert.equal(argvServer([], '/'), null);
  assert.equal(argvServer([''], '/'), null);
});

test('every name becomes a valid one', () => {
  for (const name of [
    '',
    '_',
    '__',
    'a__b',
    'ümläut',
    '日本語',
    'x'.repeat(200),
    '-a-',
    'a b/c',
    '.hidden',
    'a.b-c_d',
  ]) {
    assert.match(serverNameOf(name), SERVER_NAME_PATTERN, JSON.stringify(name));
    assert.equal(serverNameOf(serverNameOf(name)), serverNameOf(name));
  }
  assert.notEqual(serverNameOf(`${'x'.repeat(100)}1`), serverNameOf(`${'x'.repeat(100)}2`));
  assert.notEqual(serverNameOf('日本'), serverNameOf('中国'));
  assert.match(serverNameOf(`a${'_-'.repeat(500_000)}b`), /^a[_-]*-[0-9a-f]{8}$/);
});
