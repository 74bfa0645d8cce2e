import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import type { App } from '../../src/app/app.ts';
import { openApp } from '../../src/app/open-app.ts';
import { MemorySharedState } from '../../src/bus/memory/memory-shared-state.ts';
import { MemoryHub } from '../../src/bus/memory/memory-wire.ts';
import { SignedBus } from '../../src/bus/signed-bus.ts';
import { KeyRing } from '../../src/bus/trust/key-ring.ts';
import { ClusterIdentity } from '../../src/cluster/lease/cluster-identity.ts';
import { systemClock } from '../../src/model/clock.ts';
import { systemRandom } from '../../src/model/random.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { WireClient } from '../support/wire-client.ts';

const COUNTER = resolve(import.meta.dirname, '../fixtures/cluster/counter.mjs');
const counter = { command: process.execPath, args: [COUNTER] };
const SECRET = 'a secret of a cluster, 32 bytes and more';
/** Time limit of a drain that must end earlier. */
const LONG_MS = 300_000;

/** Two gateways that are nodes of one cluster, joined by the memory of this process. */
class Pair {
  readonly #folder = mkdtempSync(join(tmpdir(), 'trunkline-nodes-'));
  readonly #hub = new MemoryHub();
  readonly #state = new MemorySharedState(systemClock);
  readonly #apps: App[] = [];

  async node(id: string, servers: object): Promise<{ app: App; url: (server?: string) => string }> {
    const file = join(this.#folder, `${id}.json`);
    const config = { mcpServers: servers, listen: { port: 0 }, control: { port: 0 } };
    writeFileSync(file, JSON.stringify({ ...config, $schema: 'trunkline' }));
    const keys = new KeyRing([SECRET]);
    const logger = Logger.silent();
    const wire = this.#hub.open();
    const bus = new SignedBus({ wire, keys, clock: systemClock, random: systemRandom, logger });
    const identity = new ClusterIdentity(this.#state, keys, { clock: systemClock, logger });
    const opened = await openApp({
      load: { files: [file], cwd: this.#folder, env: process.env },
      logger: Logger.silent(),
      state: 'none',
      follow: false,
      cluster: {
        bus,
        wire,
        state: this.#state,
        identity,
        node: id,
        key: Buffer.alloc(32, 1),
        close: () => bus.close(),
      },
    });
    assert.ok(opened.ok, JSON.stringify(opened));
    const { app } = opened;
    this.#apps.push(app);
    const { mcpUrl } = await app.listen();
    app.startServers();
    await app.components.cluster!.joined(10_000);
    return {
      app,
      url: (server) => (server === undefined ? mcpUrl : mcpUrl.replace(/\/mcp$/, `/servers/${server}/mcp`)),
    };
  }

  async dispose(): Promise<void> {
    for (const app of this.#apps) await app.close('shutdown');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 20_000;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not seen: ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

test("S0.18 check:H4 a server that only another node's file names is listed and called, with input requests", async () => {
  const pair = new Pair();
  try {
    const a = await pair.node('a', {});
    await pair.node('b', { counter });
    await until(() => a.app.components.allUpstreams.servers().length === 1, 'the server of the other node');
    const client = await WireClient.open(a.url(), { capabilities: { roots: {} } });
    client.answer = () => ({ roots: [{ uri: 'file:///a' }, { uri: 'file:///b' }] });
    await until(async () => (await client.toolNames()).includes('counter__who'), 'its tools');
    assert.equal(await client.callText('counter__count'), '1');
    assert.equal(await client.callText('counter__count'), '2');
    assert.equal(await client.callText('counter__ask'), '2');
    const other = await WireClient.open(a.url('counter'));
    assert.equal(await other.callText('count'), '1');
    const who = JSON.parse(await other.callText('who'));
    assert.match(who.epoch, /^\d+\.\d+$/);
    assert.equal(a.app.components.allUpstreams.status('counter')?.state, 'running');
  } finally {
    await pair.dispose();
  }
});

test('fault:F33 check:H7 a draining node releases a process that is always in use: running calls end, later calls begin elsewhere', async () => {
  const pair = new Pair();
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-waits-'));
  try {
    const a = await pair.node('a', { counter });
    const b = await pair.node('b', { counter });
    const client = await WireClient.open(a.url('counter'));
    await client.callText('count');
    const elsewhere = new WireClient(b.url('counter'), 'stateful');
    elsewhere.sessionId = client.sessionId;
    const { pid } = JSON.parse(await elsewhere.callText('who'));
    const fileOf = (n: number): string => join(folder, String(n));
    const answers: Promise<string>[] = [];
    // One call is always under way: each ends when the next has been made.
    const next = (): void => {
      answers.push(elsewhere.callText('wait', { file: fileOf(answers.length) }).catch(String));
    };
    next();
    let over = false;
    const drained = a.app.drain(LONG_MS).then(() => (over = true));
    const end = performance.now() + 60_000;
    while (!over && performance.now() < end) {
      next();
      await new Promise((done) => setTimeout(done, 200));
      writeFileSync(fileOf(answers.length - 2), '');
    }
    assert.ok(over, 'the node has left before its time was up');
    writeFileSync(fileOf(answers.length - 1), '');
    const texts = await Promise.all(answers);
    assert.deepEqual(new Set(texts), new Set(['waited']), 'every call has its result');
    assert.notEqual(JSON.parse(await elsewhere.callText('who')).pid, pid);
    await drained;
  } finally {
    await pair.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
});

test('fault:F33 check:H7 during a drain a session with a long call stays on its node, and other sessions move meanwhile', async () => {
  const pair = new Pair();
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-waits-'));
  try {
    const a = await pair.node('a', { counter });
    const b = await pair.node('b', { counter });
    /** A session whose process is at a, and whose calls come by way of b. */
    const session = async (): Promise<WireClient> => {
      const { sessionId } = await WireClient.open(a.url('counter'));
      const [here, there] = [a, b].map(({ url }) => new WireClient(url('counter'), 'stateful'));
      here!.sessionId = there!.sessionId = sessionId;
      await here!.callText('count');
      return there!;
    };
    const [busy, other] = [await session(), await session()];
    const pidOf = async (client: WireClient): Promise<number> => JSON.parse(await client.callText('who')).pid;
    const [busyPid, otherPid] = [await pidOf(busy), await pidOf(other)];
    const file = join(folder, 'long');
    const long = busy.callText('wait', { file });
    let over = false;
    const drained = a.app.drain(LONG_MS).then(() => (over = true));
    await until(async () => (await pidOf(other)) !== otherPid, 'the other session to move');
    assert.equal(await pidOf(busy), busyPid);
    assert.equal(over, false);
    writeFileSync(file, '');
    assert.equal(await long, 'waited');
    await until(async () => (await pidOf(busy)) !== busyPid, 'the session to move');
    await drained;
  } finally {
    await pair.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
});
