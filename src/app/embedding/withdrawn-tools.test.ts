import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverProxy } from '../../compat/index.ts';
import { createGateway, type Gateway } from '../../index.ts';

/** A process with one tool. */
const SERVER = `
const say = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n');
const hello = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } };
const refusal = (id) => JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'none' } }) + '\\n';
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (method === 'initialize') say(id, hello);
  else if (method === 'tools/list') say(id, { tools: [{ name: 'x', inputSchema: { type: 'object' } }] });
  else if (id !== undefined) process.stdout.write(refusal(id));
});`;

/** Resolves with the first value that `look` returns, called now and at each event of a server. */
function reported<T>(gateway: Gateway, look: () => T | null): Promise<T> {
  return new Promise((done) => {
    const tell = (): void => {
      const found = look();
      if (found === null) return;
      for (const end of ends) end();
      done(found);
    };
    const ends = [gateway.on('serverChanged', tell), gateway.on('toolsChanged', tell)];
    tell();
  });
}

test('S4.11 check:F5 a dead process is degraded and its tools are gone at once; it is respawned and they return', async () => {
  await using gateway = await createGateway({ servers: { a: { command: process.execPath, args: ['-e', SERVER] } } });
  await gateway.ready();
  const before = serverProxy(gateway, 'a')!;
  assert.equal(before.state, 'connected');
  assert.equal(before.tools.length, 1);
  const pid = gateway.server('a')!.connections[0]!.pid!;
  const changes: { readonly state: string; readonly tools: number }[] = [];
  gateway.on('toolsChanged', () => {
    const { state, tools } = serverProxy(gateway, 'a')!;
    changes.push({ state, tools: tools.length });
  });
  const degraded = reported(gateway, () => {
    const proxy = serverProxy(gateway, 'a')!;
    return proxy.state === 'connected' ? null : proxy;
  });
  process.kill(pid, 'SIGKILL');
  assert.deepEqual((await degraded).tools, []);
  assert.equal((await gateway.tools()).length, 1, 'clients continue to see them (060)');
  const again = await reported(gateway, () => {
    const proxy = serverProxy(gateway, 'a')!;
    return proxy.state === 'connected' && changes.length >= 2 ? proxy : null;
  });
  assert.deepEqual(again.tools, before.tools);
  assert.notEqual(gateway.server('a')!.connections[0]!.pid, pid);
  assert.equal(gateway.server('a')!.restarts, 1);
  assert.equal(changes[0]!.tools, 0, 'toolsChanged reports that they are gone');
  assert.deepEqual(changes.at(-1), { state: 'connected', tools: before.tools.length }, 'and that they are back');
});
