import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, headers, type NatsConnection } from '@nats-io/transport-node';
import type { App } from '../../src/app/app.ts';
import { openApp } from '../../src/app/open-app.ts';
import { subjectExecute, subjectListTools } from '../../src/app/public-subjects/subjects.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { Seeded } from '../chaos/seeded.ts';
import { MIXED_NAMES, MixedServer } from '../fixtures/http/mixed.ts';
import { NatsServer } from '../support/nats-server.ts';
import type { EventReader, Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const KEYS = { all: 'the-key-of-agent-all', some: 'the-key-of-agent-some' } as const;
const ERAS = ['stateful', 'stateless'] as const;
const WAIT = { timeout: 30_000 };
type Agent = keyof typeof KEYS;

/** The member that identifies an item of each list, and the request that uses the item. */
const KINDS = {
  tools: ['name', 'tools/call'],
  prompts: ['name', 'prompts/get'],
  resources: ['uri', 'resources/read'],
} as const;
type Kind = keyof typeof KINDS;

/**
 * The property of `gateway/listed-is-callable.test.ts` on all paths into a real gateway: both nodes of a cluster, each era,
 * both kinds of endpoint, and the public subjects. One random configuration of six servers for all of it.
 */
describe('each node of a cluster lists exactly the items that can be used', { timeout: 120_000 }, () => {
  const random = new Seeded(SEED);
  const chance = (of: number): boolean => random.unit() < of;
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-listed-'));
  const apps: App[] = [];
  const servers: MixedServer[] = [];
  const urls: string[] = [];
  /** The servers that both nodes define. */
  const shared = new Set<string>();
  let nats: NatsServer;
  let program: NatsConnection;

  before(async () => {
    nats = await NatsServer.start();
    program = await connect({ servers: nats.url });
    const secret = randomBytes(32).toString('hex');
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      servers.push(await MixedServer.start(name, chance(0.5) ? 'stateful' : 'stateless', () => chance(0.6), chance));
    }
    const some = (): string[] => MIXED_NAMES.filter(() => chance(0.6));
    const definitions = servers.map(({ name, url }) => {
      const definition: Record<string, unknown> = { type: 'http', url };
      if (chance(0.4)) definition['includeTools'] = some();
      if (chance(0.4)) definition['excludeTools'] = some();
      // On one node, on the other, or on both.
      return { name, definition, on: 1 + random.below(3) };
    });
    const allowed = new Set(servers.map(({ name }) => name).filter(() => chance(0.6)));
    for (const { name, on } of definitions) if (on === 3) shared.add(name);
    for (const at of [0, 1]) {
      const here = definitions.filter(({ on }) => (on & (at + 1)) !== 0);
      const config = {
        mcpServers: Object.fromEntries(here.map(({ name, definition }) => [name, definition])),
        agents: {
          all: { key: KEYS.all },
          // A file grants rights to its own servers only.
          some: { key: KEYS.some, servers: here.map(({ name }) => name).filter((name) => allowed.has(name)) },
        },
        listen: { port: 0 },
        control: { port: 0 },
        cluster: { nats: nats.url, secret, node: `node-${at}`, publicSubjects: true },
      };
      const file = join(folder, `${at}.json`);
      writeFileSync(file, JSON.stringify(config));
      const load = { files: [file], cwd: folder, env: {} };
      const opened = await openApp({ load, logger: Logger.silent(), state: 'none', follow: false, joins: true });
      assert.ok(opened.ok, JSON.stringify(opened));
      apps.push(opened.app);
      urls.push((await opened.app.listen()).mcpUrl);
      opened.app.startServers();
    }
    await Promise.all(apps.map(({ components }) => components.cluster!.joined(10_000)));
    // Every server is known at both nodes: its marker is listed.
    for (const url of urls) {
      const client = await open(url, 'stateful', 'all');
      for (const end = performance.now() + 30_000; ; ) {
        const uris = await listed(client, 'resources');
        if (servers.every(({ marker }) => uris.has(marker))) break;
        assert.ok(performance.now() < end, [...uris].join());
        await new Promise((done) => setTimeout(done, 50));
      }
    }
  });

  after(async () => {
    await program?.close();
    await Promise.all(apps.map((app) => app.close('shutdown')));
    await Promise.all(servers.map((server) => server.stop()));
    await nats?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  async function open(url: string, era: 'stateful' | 'stateless', agent: Agent): Promise<WireClient> {
    const client = new WireClient(url, era, { headers: { authorization: `Bearer ${KEYS[agent]}` } });
    if (era === 'stateful') await client.request('initialize', INITIALIZE);
    if (client.sessionId !== null) await client.notify('notifications/initialized');
    return client;
  }

  /** The names in a list, as the client knows them; none where the client is refused. */
  async function listed(client: WireClient, kind: Kind): Promise<ReadonlySet<string>> {
    const { message } = await client.request(`${kind}/list`);
    return new Set((message?.result?.[kind] ?? []).map((item: Json) => item[KINDS[kind][0]]));
  }

  /** Whether the request was answered with a result. */
  async function isServed(client: WireClient, method: string, params: object): Promise<boolean> {
    const { message } = await client.request(method, params);
    return message?.result !== undefined && message.result.isError !== true;
  }

  const used = (): number => servers.reduce((sum, server) => sum + server.used, 0);

  /** All paths of a client to the servers; `prefix`: whether names carry the name of their server there. */
  function* ways() {
    for (const [node, url] of urls.entries()) {
      for (const agent of ['all', 'some'] as const) {
        for (const era of ERAS) {
          const where = `SEED=${SEED} node ${node} ${agent} ${era}`;
          yield { url, agent, era, where: `${where} aggregate`, prefix: true, reached: servers };
          for (const server of servers) {
            const own = url.replace(/mcp$/, `servers/${server.name}/mcp`);
            yield { url: own, agent, era, where: `${where} ${server.name}`, prefix: false, reached: [server] };
          }
        }
      }
    }
  }

  test('S2.28 S2.31 check:G4 tools, prompts and resources, on all endpoints, in both eras', async (t) => {
    t.diagnostic(`SEED=${SEED}`);
    let [shown, refused] = [0, 0];
    for (const { url, agent, era, where, prefix, reached } of ways()) {
      const client = await open(url, era, agent);
      for (const kind of ['tools', 'prompts', 'resources'] as const) {
        const [key, method] = KINDS[kind];
        const names = await listed(client, kind);
        const candidates = reached.flatMap((server) =>
          server.candidates(kind).map((own) => (prefix && kind !== 'resources' ? `${server.name}__${own}` : own)),
        );
        const before = used();
        // Concurrently: a request with an unlisted name waits for the other node.
        const served = await Promise.all(candidates.map((name) => isServed(client, method, { [key]: name })));
        const usable = candidates.filter((_, i) => served[i]);
        assert.deepEqual(usable.sort(), [...names].sort(), `${where} ${method}`);
        assert.equal(used() - before, usable.length, `${where} ${method} without the server`);
        shown += usable.length;
        refused += candidates.length - usable.length;
      }
    }
    assert.ok(shown > 50 && refused > 50, `${shown} used, ${refused} refused`);
  });

  test('S0.1 S0.2 S2.28 check:G4 tools on the public subjects, whichever node answers', async () => {
    for (const agent of ['all', 'some'] as const) {
      const lines = headers();
      lines.set('Trunkline-Key', KEYS[agent]);
      const ask = async (subject: string, payload: object): Promise<Json> =>
        (await program.request(subject, JSON.stringify(payload), { ...WAIT, headers: lines })).json();
      for (const server of servers) {
        // Any node may answer: there, `some` has the rights that the file of that node gives.
        if (agent === 'some' && !shared.has(server.name)) continue;
        const { tools } = await ask(subjectListTools(server.name), { session_id: 'x' });
        const names = new Set(tools.map(({ name }: Json) => name));
        for (const tool of server.candidates('tools')) {
          for (const session_id of ['x', 'y', 'z']) {
            const before = server.used;
            const { error, result } = await ask(subjectExecute(server.name), { session_id, tool, args: {} });
            const where = `SEED=${SEED} public ${agent} ${server.name} ${tool}: ${error}`;
            assert.equal(result !== undefined, names.has(tool), where);
            if (result !== undefined) assert.ok(server.used > before, where);
          }
        }
      }
    }
  });

  test('S2.28 check:G4 exactly the listed resources can be subscribed to, and their updates arrive', async () => {
    let [told, refused] = [0, 0];
    for (const { url, agent, era, where, reached } of ways()) {
      const client = await open(url, era, agent);
      const uris = reached.flatMap((server) => server.candidates('resources'));
      const names = await listed(client, 'resources');
      const { stream, agreed } = await subscribe(client, uris);
      assert.deepEqual([...agreed].sort(), uris.filter((uri) => names.has(uri)).sort(), `${where} subscribed`);
      refused += uris.length - agreed.size;
      // Updates without a subscription are first, so that wrong ones would arrive before the last right one.
      for (const uri of uris.filter((one) => !agreed.has(one))) owner(uri).update(uri);
      for (const uri of agreed) owner(uri).update(uri);
      const heard = new Set<string>();
      while (stream !== null && heard.size < agreed.size) {
        const message = await stream.message();
        assert.ok(message !== null, `${where}: the stream ended`);
        if (message.method === 'notifications/resources/updated') heard.add(message.params.uri);
      }
      assert.deepEqual([...heard].sort(), [...agreed].sort(), `${where} notified`);
      told += heard.size;
      stream?.drop();
    }
    assert.ok(told > 20 && refused > 20, `${told} notified, ${refused} refused`);
  });

  function owner(uri: string): MixedServer {
    return servers.find(({ name }) => uri.startsWith(`${name}:`))!;
  }

  async function subscribe(
    client: WireClient,
    uris: readonly string[],
  ): Promise<{ stream: Pick<EventReader, 'message' | 'drop'> | null; agreed: Set<string> }> {
    if (client.era === 'stateless') {
      const stream = await client.listening({ resourceSubscriptions: uris }).catch(() => null);
      return { stream, agreed: new Set<string>(stream?.acknowledged.resourceSubscriptions ?? []) };
    }
    const agreed = new Set<string>();
    const stream = client.sessionId === null ? null : await client.listen();
    for (const uri of uris) {
      const { message } = await client.request('resources/subscribe', { uri });
      if (message?.result !== undefined) agreed.add(uri);
    }
    return { stream, agreed };
  }
});

const INITIALIZE = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'wire', version: '1' },
};
