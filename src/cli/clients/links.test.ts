import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { clientsHere } from '../../app/clients/clients.ts';
import type { Terminal } from '../command-input.ts';
import { bytesOf, clientsByLink, Links } from './links.ts';

const CURSOR = clientsHere({}).find(({ id }) => id === 'cursor')!;

function place(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-links-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'no-folder'), '');
  return {
    home: folder,
    links: new Links(join(folder, 'data')),
    file: join(folder, 'mcp.json'),
    bad: join(folder, 'no-folder/a.json'),
  };
}

const AS = { name: 'tl', url: 'http://127.0.0.1:4270/mcp' };

test('a file that cannot be written leaves no record of a link', (t) => {
  const { links, bad } = place(t);
  assert.throws(() => links.write(CURSOR, bad, null, '{}', AS), { code: /^(?:ENOTDIR|EEXIST)$/ });
  assert.equal(links.get('cursor'), null);
});

test('a file that cannot be replaced leaves no copy of its new content, which may contain a key', (t) => {
  const { links, file, home } = place(t);
  mkdirSync(file);
  assert.throws(() => links.write(CURSOR, file, null, '{}', AS), { code: 'EISDIR' });
  assert.deepEqual(readdirSync(home).sort(), ['data', 'mcp.json', 'no-folder']);
});

test('a file that cannot be written leaves the earlier record, which restores the file', (t) => {
  const { links, file, bad } = place(t);
  writeFileSync(file, '{ }');
  links.write(CURSOR, file, bytesOf(file), '{}', AS);
  assert.throws(() => links.write(CURSOR, bad, null, '{}', { ...AS, name: 'other' }));
  assert.deepEqual(links.get('cursor')?.entries, [AS]);
  assert.ok(links.restore('cursor', 'tl'));
  assert.equal(String(bytesOf(file)), '{ }');
});

test('a client with two gateways is linked to both of them', (t) => {
  const { links, file, home } = place(t);
  const text = '{"mcpServers":{"tl":{"url":"u"},"work":{"url":"u"}}}';
  mkdirSync(join(home, '.cursor'));
  const work = { name: 'work', url: 'http://127.0.0.1:4272/mcp' };
  links.write(CURSOR, file, null, text, AS);
  links.write(CURSOR, file, bytesOf(file), text, work);
  const terminal = { env: { HOME: home }, cwd: home } as unknown as Terminal;
  for (const [url, expected] of [
    [AS.url, 1],
    [work.url, 1],
    ['http://127.0.0.1:4274/mcp', 0],
  ] as const) {
    assert.equal(clientsByLink({ flags: { dataDir: 'data' }, terminal }, url).linked.length, expected, url);
  }
});
