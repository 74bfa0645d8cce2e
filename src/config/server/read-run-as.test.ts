import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { loadConfig } from '../load-config.ts';

async function specOf(definition: object) {
  const text = JSON.stringify({ mcpServers: { one: { command: 'x', ...definition } } });
  return loadConfig({ inline: [{ label: '<test>', text }], cwd: tmpdir(), env: {}, strict: true });
}

test('fault:F41 whose process a server is: by name or number, with a limit or without; another one is another connection', async () => {
  const digests = new Set<string>();
  for (const [runAs, expected] of [
    [undefined, undefined],
    [{ user: 'nobody' }, { user: 'nobody', processes: null }],
    [
      { user: 64123, processes: 60 },
      { user: '64123', processes: 60 },
    ],
    [
      { user: 64123, processes: 61 },
      { user: '64123', processes: 61 },
    ],
  ] as const) {
    const result = await specOf({ runAs });
    assert.ok(result.ok, JSON.stringify(result));
    const server = result.state.servers.get('one')!;
    assert.ok(server.transport.type === 'stdio');
    assert.deepEqual(server.transport.runAs, expected);
    digests.add(server.connectionDigest);
  }
  assert.equal(digests.size, 4);
});

test('fault:F41 on another host it has no effect, and is warned of; what is no user is refused', async () => {
  const remote = await specOf({ ssh: 'me@host', runAs: { user: 'nobody' } });
  assert.ok(remote.ok);
  assert.deepEqual(
    remote.warnings.map(({ code }) => code),
    ['TL1307'],
  );
  for (const runAs of [{ user: '' }, { user: -1 }, { processes: 3 }, { user: 'x', processes: 0 }, 'nobody']) {
    assert.equal((await specOf({ runAs })).ok, false, JSON.stringify(runAs));
  }
});
