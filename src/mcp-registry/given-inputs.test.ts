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

test('a default of the registry is text: a secret one reads no variable, file or secret of this machine', async () => {
  for (const text of ['${GITHUB_TOKEN}', '${file:/home/ada/.token}', '${secret:other}']) {
    const ofDocument = new GivenInputs('weather', new Map());
    const [reference] = (await ofDocument.value('TOKEN', { isSecret: true, default: text }))!;
    assert.equal(reference, `\${secret:${ofDocument.secretNames['TOKEN']}}`);
    assert.deepEqual([...ofDocument.secrets.values()], [text]);
    assert.notDeepEqual(await ofDocument.value('plain', { default: text }), [text]);
    const ofUser = new GivenInputs('weather', new Map([['TOKEN', [text]]]));
    assert.deepEqual(await ofUser.value('TOKEN', { isSecret: true, default: '${OTHER}' }), [text]);
    const asked = new GivenInputs('weather', new Map(), async () => text);
    assert.deepEqual(await asked.value('TOKEN', { isSecret: true, isRequired: true }), [text]);
  }
});

test('a secret takes one value', async () => {
  const given = new GivenInputs('weather', new Map([['TOKEN', ['a', 'b']]]));
  await assert.rejects(given.value('TOKEN', { isSecret: true }), /TOKEN is a secret, and takes one value/);
});
