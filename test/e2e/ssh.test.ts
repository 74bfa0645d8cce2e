import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGateway } from '../../src/index.ts';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { SshServer } from '../support/ssh-server.ts';

test('S2.22 S2.23 S2.24 check:B3 a server on another host is called like any other, and its status says where it is', async () => {
  await using sshd = await SshServer.start();
  const { host, user, port, identityFile, knownHostsFile } = sshd.spec();
  const ssh = { host, user: user!, port, identityFile: identityFile!, knownHostsFile: knownHostsFile! };
  await using gateway = await createGateway({
    config: { mcpServers: { far: { command: process.execPath, args: [FOUR_SERVERS.mcpServers.memory.command], ssh } } },
  });
  await gateway.ready();
  const { state, transport, sshHost, localProcess, external, toolCount } = gateway.server('far')!;
  assert.deepEqual([state, transport, sshHost], ['running', 'stdio', '127.0.0.1']);
  assert.deepEqual([gateway.server('far')!.ssh, localProcess, external], [true, false, false]);
  assert.ok(toolCount > 0);
  const { structuredContent } = await gateway.callTool('far__read_graph', {});
  assert.ok(Array.isArray((structuredContent as { entities: unknown }).entities));
});
