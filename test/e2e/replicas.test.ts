import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const shared = { isolation: 'shared', replicas: 3 };

async function started(t: TestContext, servers: object): Promise<RunningGateway> {
  const gateway = await RunningGateway.start({ config: { mcpServers: servers } });
  t.after(() => gateway.dispose());
  await gateway.ready('pool');
  return gateway;
}

async function replicasOf(gateway: RunningGateway): Promise<readonly Json[]> {
  const { servers } = await gateway.control<{ servers: Json[] }>('/api/v1/servers');
  return servers.find(({ name }) => name === 'pool').replicas;
}

/** Waits until this many replicas run, and returns their process ids. */
async function serving(gateway: RunningGateway, count: number, but: ReadonlySet<number> = new Set()) {
  const end = performance.now() + 60_000;
  for (;;) {
    const replicas = await replicasOf(gateway);
    const pids = replicas.filter(({ state, pid }) => state === 'running' && !but.has(pid)).map(({ pid }) => pid);
    if (pids.length === count) return pids as number[];
    if (performance.now() > end) throw new Error(`not ${count} replicas: ${JSON.stringify(replicas)}`);
    await new Promise((done) => setTimeout(done, 25));
  }
}

async function pidOf(client: WireClient): Promise<number> {
  return JSON.parse(await client.callText('pool__who', {})).pid;
}

test('check:A13 sessions keep their processes; a killed one is replaced, and the others serve its session', async (t) => {
  const gateway = await started(t, { pool: manySided('pool', {}, shared) });
  const before = await serving(gateway, 3);
  const clients = await Promise.all([1, 2, 3].map(() => WireClient.open(gateway.mcpUrl)));
  const processes: number[] = [];
  for (const client of clients) processes.push(await pidOf(client));
  assert.deepEqual([...processes].sort(), [...before].sort(), 'each has its own, and each is used');
  for (let round = 1; round <= 3; round++) {
    for (const [i, client] of clients.entries()) {
      assert.equal(await client.callText('pool__count', {}), `${round}`, 'the session keeps its state');
      assert.equal(await pidOf(client), processes[i]);
    }
  }
  process.kill(processes[0]!, 'SIGKILL');
  const after = await serving(gateway, 3, new Set([processes[0]!]));
  assert.equal(new Set(after).size, 3);
  assert.ok(after.includes(await pidOf(clients[0]!)));
  for (const i of [1, 2]) assert.equal(await pidOf(clients[i]!), processes[i], 'the others keep their processes');
  assert.deepEqual((await replicasOf(gateway)).map(({ restarts }) => restarts).sort(), [0, 0, 1]);
  await gateway.stop();
  for (const pid of after) assert.ok(!alive(pid));
});

test('check:A13 calls of clients without sessions are spread, and a restart loses none of them', async (t) => {
  const gateway = await started(t, { pool: manySided('pool', { ERA: 'stateless' }, shared) });
  const before = await serving(gateway, 3);
  const client = new WireClient(gateway.mcpUrl, 'stateless');
  const asked = await Promise.all(Array.from({ length: 12 }, () => pidOf(client)));
  assert.deepEqual([...new Set(asked)].sort(), [...before].sort());
  let over = false;
  const restarted = gateway.control('/api/v1/servers/pool/restart', 'POST').finally(() => {
    over = true;
  });
  let calls = 0;
  // Each waits for its answer, and would fail with the first call that is lost.
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      do {
        await pidOf(client);
        calls++;
      } while (!over);
    }),
  );
  await restarted;
  assert.ok(calls >= 4);
  const after = await serving(gateway, 3, new Set(before));
  for (const pid of before) assert.ok(!alive(pid) && !after.includes(pid));
});
