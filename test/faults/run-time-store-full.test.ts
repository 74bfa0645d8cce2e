import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const CONFIG = { mcpServers: { base: manySided('base') } };
const LAZY = { url: 'http://127.0.0.1:9/mcp', start: 'lazy' };

/** Forbids the gateway to add a byte to any file, which is an error for it like a full disk, or permits it again. */
function room(gateway: RunningGateway, bytes: '1' | 'unlimited'): void {
  execFileSync('prlimit', [`--pid=${gateway.process.pid}`, `--fsize=${bytes}:`]);
}

function canLimit(t: TestContext): boolean {
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    t.skip('no prlimit here');
    return false;
  }
}

async function started(t: TestContext, folder?: string): Promise<RunningGateway> {
  const gateway = await RunningGateway.start({ config: CONFIG, ...(folder === undefined ? {} : { folder }) });
  t.after(() => (folder === undefined ? gateway.dispose() : gateway.stop()));
  return gateway;
}

test('fault:F34 the disk is full: changes of servers fail with 507 and change nothing, calls go on, and it recovers without a restart', async (t) => {
  if (!canLimit(t)) return;
  const gateway = await started(t);
  await gateway.ready();
  const client = new RunTimeClient(gateway);
  for (const name of ['kept', 'gone']) assert.equal((await client.add(name, LAZY)).status, 201);
  const user = await WireClient.open(gateway.mcpUrl);
  const { revision } = (await client.server('kept')).desired;

  room(gateway, '1');
  for (let i = 0; i < 3; i++) {
    const refused = [
      await client.add('more', LAZY),
      await client.change('kept', { ...LAZY, description: 'changed' }),
      await client.remove('gone'),
      await client.suspend('base'),
    ];
    for (const { status, json } of refused) assert.deepEqual([status, json.error.code], [507, 'store_full']);
    assert.equal(await user.callText('base__echo', { text: 'on' }), 'on');
  }
  assert.deepEqual(await client.names(), ['base', 'gone', 'kept']);
  assert.deepEqual(
    [(await client.server('kept')).description, (await client.server('kept')).desired.revision],
    [null, revision],
  );
  assert.equal((await client.server('base')).desired.suspended, false);

  room(gateway, 'unlimited');
  assert.equal((await client.add('more', LAZY)).status, 201);
  assert.equal((await client.remove('gone')).status, 200);
  await gateway.stop('SIGKILL');
  const next = await started(t, gateway.folder);
  assert.deepEqual(await new RunTimeClient(next).names(), ['base', 'kept', 'more']);
});

test('fault:F34 the disk is full before the first change: the gateway starts, serves, and takes changes later', async (t) => {
  if (!canLimit(t)) return;
  const gateway = await started(t);
  await gateway.ready();
  const client = new RunTimeClient(gateway);
  room(gateway, '1');
  assert.equal((await client.add('first', LAZY)).status, 507);
  const user = await WireClient.open(gateway.mcpUrl);
  assert.equal(await user.callText('base__echo', { text: 'on' }), 'on');
  room(gateway, 'unlimited');
  const added = await client.add('first', LAZY);
  assert.equal(added.status, 201, added.text);
  await gateway.stop('SIGKILL');
  const next = await started(t, gateway.folder);
  assert.deepEqual(await new RunTimeClient(next).names(), ['base', 'first']);
});
