import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createGateway } from '../../src/index.ts';
import { FakeSsh } from '../support/fake-ssh.ts';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { type FarHost, NO_SSHD, SshServer } from '../support/ssh-server.ts';

const HOSTS: readonly { name: string; skip: string | false; start: () => Promise<FarHost> }[] = [
  { name: 'a fake ssh', skip: false, start: async () => new FakeSsh() },
  { name: 'ssh and sshd', skip: NO_SSHD, start: () => SshServer.start() },
];

for (const { name, skip, start } of HOSTS)
  test(`S2.22 S2.23 S2.24 check:B3 a server on another host is called like any other, and its status has the host: ${name}`, {
    skip,
  }, async () => {
    await using sshd = await start();
    const { PATH } = process.env;
    process.env['PATH'] = sshd.environment['PATH'];
    after(() => {
      process.env['PATH'] = PATH;
    });
    const { host, user, port, identityFile, knownHostsFile } = sshd.spec();
    const ssh = { host, user: user!, port, identityFile: identityFile!, knownHostsFile: knownHostsFile! };
    await using gateway = await createGateway({
      config: {
        mcpServers: { far: { command: process.execPath, args: [FOUR_SERVERS.mcpServers.memory.command], ssh } },
      },
    });
    await gateway.ready();
    const { state, transport, sshHost, compat, toolCount } = gateway.server('far')!;
    assert.deepEqual([state, transport, sshHost], ['running', 'stdio', '127.0.0.1']);
    assert.deepEqual([compat.ssh, compat.localProcess, compat.external], [true, false, false]);
    assert.ok(toolCount > 0);
    const { structuredContent } = await gateway.callTool('far__read_graph', {});
    assert.ok(Array.isArray((structuredContent as { entities: unknown }).entities));
  });
