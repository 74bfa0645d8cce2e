import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { loadConfig } from '../load-config.ts';

let folder = '';
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'tl-replicas-'));
});
after(() => rmSync(folder, { recursive: true }));

async function load(server: object) {
  writeFileSync(join(folder, 'trunkline.json'), JSON.stringify({ mcpServers: { one: server } }));
  const result = await loadConfig({ files: ['trunkline.json'], cwd: folder, env: {}, strict: true });
  if (!result.ok) return result.problems.map(({ code, message }) => `${code} ${message}`).join();
  const { replicas, connectionDigest } = result.state.servers.get('one')!;
  return { replicas, connectionDigest };
}

const shared = { command: 'x', isolation: 'shared' };

test('check:A13 replicas of a shared process are read; a change of their number needs no new connection', async () => {
  const one = await load(shared);
  const four = await load({ ...shared, replicas: 4 });
  assert.ok(typeof one === 'object' && typeof four === 'object', JSON.stringify([one, four]));
  assert.deepEqual([one.replicas, four.replicas], [1, 4]);
  assert.equal(one.connectionDigest, four.connectionDigest);
});

test('check:A13 replicas are refused where calls cannot be divided among them', async () => {
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ command: 'x', replicas: 2 }, /^TL1306 .*only calls to a shared server/],
    [{ command: 'x', isolation: 'session', replicas: 2 }, /^TL1306 .*only calls to a shared server/],
    [{ url: 'http://127.0.0.1:1/mcp', isolation: 'shared', replicas: 2 }, /^TL1306 .*no process/],
    [{ docker: { container: 'c' }, replicas: 2 }, /^TL1306 .*no process/],
    [{ ...shared, replicas: 3, limits: { maxProcesses: 2 } }, /^TL1306 .*3 replicas and at most 2 processes/],
    [{ ...shared, replicas: 0 }, /^TL1303/],
  ];
  for (const [server, expected] of cases) assert.match(String(await load(server)), expected);
});
