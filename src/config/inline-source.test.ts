import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { loadConfig } from './load-config.ts';

const cwd = mkdtempSync(join(tmpdir(), 'trunkline-inline-'));
after(() => rmSync(cwd, { recursive: true, force: true }));

test('check:A1 a document without a file is read as a Trunkline file, with positions in it and paths relative to cwd', async () => {
  const text = '{\n  "servers": {\n    "a": { "command": "./run", "cwd": "sub" }\n  }\n}';
  const good = await loadConfig({ inline: [{ label: '<program>', text }], cwd, env: {} });
  assert.ok(good.ok);
  const { transport, origin } = good.state.servers.get('a')!;
  assert.deepEqual(origin, { file: '<program>', line: 3, column: 5 });
  assert.ok(transport.type === 'stdio' && transport.cwd === join(cwd, 'sub'));
  assert.deepEqual(good.state.files, []);
  assert.deepEqual(good.watched, []);

  const bad = await loadConfig({
    inline: [{ label: '<program>', text: text.replace('cwd', 'cwdd') }],
    cwd,
    env: {},
    strict: true,
  });
  assert.ok(!bad.ok);
  assert.deepEqual(
    bad.problems.map(({ file, line, code }) => [file, line, code]),
    [['<program>', 3, 'TL1301']],
  );
});

test('a file and a document may not define the same server, and problems are in the order of reading', async () => {
  const file = join(cwd, 'servers.json');
  writeFileSync(file, '{"servers":{"a":{"command":"x"},"b":{}}}');
  const inline = [{ label: '<program>', text: '{"servers":{"a":{"command":"y"}}}' }];
  const result = await loadConfig({ files: [file], inline, cwd, env: {}, strict: true });
  assert.ok(!result.ok);
  assert.deepEqual(
    result.problems.map(({ file: where, code }) => [where, code]),
    [
      [file, 'TL1409'],
      ['<program>', 'TL1404'],
    ],
  );
});
