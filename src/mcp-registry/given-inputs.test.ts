import assert from 'node:assert/strict';
import { test } from 'node:test';
import { secretNameOf } from '../config/server/without-secrets.ts';
import { SECRET_NAME } from '../model/names.ts';
import { GivenInputs } from './given-inputs.ts';

test('a secret of a long input gets a name that can be stored', async () => {
  const input = `API_KEY_${'X'.repeat(200)}`;
  const given = new GivenInputs('weather', new Map([[input, ['s3cret']]]));
  const value = await given.value(input, { isSecret: true });
  const name = given.secretNames[input]!;
  assert.match(name, SECRET_NAME);
  assert.deepEqual([value, [...given.secrets]], [[`\${secret:${name}}`], [[name, 's3cret']]]);
  assert.notEqual(secretNameOf('weather', input), secretNameOf('weather', `${input}2`), 'each has its own secret');
});
