import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadDefinition } from '../load-definition.ts';
import { writtenValues } from './written-values.ts';

async function valuesOf(text: string) {
  const found = await loadDefinition({
    text,
    name: 'x',
    folder: '/srv',
    env: { TOKEN: 'secret-token-value', HOST: 'h' },
  });
  assert.ok(found.ok, JSON.stringify(found));
  return writtenValues(found.server.origin);
}

test('each value of a definition has its line and column, and omitted keys have their defaults', async () => {
  const values = await valuesOf(`{
  "command": "node",
  "args": ["a.js", "--port=\${HOST}"],
  "env": { "MODE": "fast", "TOKEN": "\${TOKEN}" },
  "limits": { "maxProcesses": 3 },
  "trusted": true
}`);
  const written = values
    .filter(({ file }) => file !== null)
    .map(({ key, value, line, column }) => [key, value, line, column]);
  assert.deepEqual(written, [
    ['command', '"node"', 2, 14],
    ['args[0]', '"a.js"', 3, 12],
    ['args[1]', '"--port=${HOST}"', 3, 20],
    ['env.MODE', '"fast"', 4, 20],
    ['env.TOKEN', '"${TOKEN}"', 4, 37],
    ['limits.maxProcesses', '3', 5, 31],
    ['trusted', 'true', 6, 14],
  ]);
  const defaults = new Map(values.filter(({ file }) => file === null).map(({ key, value }) => [key, value]));
  assert.equal(defaults.get('timeoutMs'), '60000');
  assert.equal(defaults.has('limits.maxProcesses'), false);
  assert.ok(defaults.has('limits.maxMessageBytes'));
  assert.ok(values.filter(({ file }) => file === null).every(({ line, column }) => line === null && column === null));
});

test('a secret in a definition is masked, however it is written', async () => {
  const secret = 'sk-a1B2c3D4e5F6g7H8i9J0k1L2m3N4';
  const text = JSON.stringify({
    url: `https://example.com/mcp?api_key=${secret}`,
    headers: {
      Authorization: `Bearer ${secret}`,
      'X-Mode': 'fast',
      'X-Api-Key': `\${KEY:-${secret}}`,
      'X-Token': '${TOKEN}',
    },
  });
  const remote = await valuesOf(text);
  const local = await valuesOf(
    JSON.stringify({
      command: 'x',
      args: ['--token', secret, `--key=${secret}`],
      env: { API_TOKEN: secret, MODE: 'fast' },
    }),
  );
  for (const values of [remote, local]) {
    const all = JSON.stringify(values);
    assert.ok(!all.includes(secret), all);
    assert.ok(!all.includes('secret-token-value'), all);
    assert.ok(all.includes('[redacted]'));
  }
  assert.equal(local.find(({ key }) => key === 'env.MODE')?.value, '"fast"');
  assert.equal(remote.find(({ key }) => key === 'headers.X-Token')?.value, '"${TOKEN}"');
});

test('a secret that is written as a number is masked, and other numbers are shown', async () => {
  for (const definition of [
    { command: 'x', env: { API_TOKEN: 48151623 } },
    { command: 'x', args: ['--password', 48151623] },
    { url: 'https://example.com/mcp', headers: { 'X-Api-Key': 48151623 } },
  ]) {
    const values = await valuesOf(JSON.stringify({ ...definition, timeoutMs: 1234 }));
    assert.ok(!JSON.stringify(values).includes('48151623'), JSON.stringify(values));
    assert.ok(values.some(({ value }) => value === '"[redacted]"'));
    assert.equal(values.find(({ key }) => key === 'timeoutMs')?.value, '1234');
  }
});
