import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LocalUpstreams } from '../../src/cluster/cluster-deps.ts';
import type { Gateway } from '../../src/gateway/gateway.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import type { ClientStreams, Upstreams } from '../../src/model/ports.ts';
import type { Server } from '../../src/model/server.ts';
import { notification, request } from '../../src/protocol/compose.ts';
import { DownstreamRig } from './downstream-rig.ts';
import { FakeClock, settled } from './fake-clock.ts';
import { FakeCore } from './fake-core.ts';
import { FakeStreams, FakeUpstreams, GatewayBench, MCP } from './gateway-bench.ts';
import { PlayedUpstreams } from './played-upstreams.ts';
import type { EventReader } from './raw-http.ts';
import { statefulScript } from './scripted-server.ts';
import { serverCatalog, tool } from './server-catalogs.ts';
import { clientOf, serverOf, TestExchange, toolCall, UpstreamBench } from './upstream-bench.ts';

const SERVERS: readonly Server[] = [serverOf('b'), serverOf('a')];
const client = clientOf('s');
const stranger = clientOf('s', '{"sampling":{}}');

/** The behaviour that a double of the servers shares with the real ones, because tested code relies on it. */
interface Bench {
  readonly upstreams: Upstreams;
  /** Lists the server for the client. */
  list(server: string): Promise<void>;
}

const BENCHES: Readonly<Record<string, () => Promise<Bench>>> = {
  'the real servers': async () => {
    const bench = new UpstreamBench();
    await bench.run(...SERVERS.map((server) => [server, statefulScript()] as const));
    const list = async (server: string) => void (await bench.set.catalog(server, client, 1_000));
    return { upstreams: bench.set, list };
  },
  'PlayedUpstreams of the cluster': async () => {
    const played = new PlayedUpstreams('n');
    await played.apply(new Map(SERVERS.map((server) => [server.name, server])));
    const list = async (server: string) => {
      played.catalogs.set(server, serverCatalog(server, { tools: [tool('echo')] }));
    };
    return { upstreams: played, list };
  },
  'FakeUpstreams of the gateway': async () => {
    const fake = new FakeUpstreams(new FakeClock());
    fake.list = [...SERVERS].sort((a, b) => (a.name < b.name ? -1 : 1));
    const list = async (server: string) => fake.listed(server, { tools: [tool('echo')] });
    return { upstreams: fake, list };
  },
};

for (const [name, make] of Object.entries(BENCHES)) {
  describe(`the port Upstreams: ${name}`, () => {
    test('servers are sorted by name', async () => {
      const { upstreams } = await make();
      assert.deepEqual(
        upstreams.servers().map((server) => server.name),
        ['a', 'b'],
      );
    });

    test('unknown servers give nothing, and nothing throws', async () => {
      const { upstreams } = await make();
      assert.equal(upstreams.knownCatalog('none', client), null);
      assert.equal(await upstreams.catalog('none', client, 0), null);
      assert.equal(upstreams.status('none'), null);
      assert.equal(upstreams.ownsConnection('none', client), false);
      upstreams.notify('none', notification('notifications/x', null, 'stateful'), client);
      upstreams.releaseSession('none');
      const lost = toolCall(client);
      const outcome = await upstreams.call('none', lost.request, lost);
      assert.ok(outcome.kind === 'failure' && outcome.error.outcome === 'NOT_SENT');
      await assert.rejects(upstreams.restart('none'), GatewayError);
    });

    test('a call resolves with an answer in the era of the request', async () => {
      const { upstreams } = await make();
      const message = request('tools/call', '"c1"', '{"name":"echo","arguments":{}}', 'stateful');
      const outcome = await upstreams.call('a', message, new TestExchange(client, message));
      assert.ok(outcome.kind === 'answer');
      assert.equal(outcome.message.era, 'stateful');
    });

    test('a catalogue is known for the kind of client it was listed for, and for others when any catalogue will do', async () => {
      const { upstreams, list } = await make();
      assert.equal(upstreams.knownCatalog('a', client), null);
      await list('a');
      await settled();
      const known = upstreams.knownCatalog('a', client);
      assert.deepEqual(
        known?.lists.tools.items.map(({ key }) => key),
        ['echo'],
      );
      assert.equal(known?.fingerprint, client.fingerprint);
      assert.equal(upstreams.knownCatalog('a', stranger), null);
      assert.equal(upstreams.knownCatalog('a', stranger, true), known);
    });
  });
}

const LOCAL: Readonly<Record<string, () => Promise<LocalUpstreams>>> = {
  'the real servers': async () => {
    const bench = new UpstreamBench();
    await bench.run(...SERVERS.map((server) => [server, statefulScript()] as const));
    return bench.set;
  },
  'PlayedUpstreams of the cluster': async () => {
    const played = new PlayedUpstreams('n');
    await played.apply(new Map(SERVERS.map((server) => [server.name, server])));
    return played;
  },
};

for (const [name, make] of Object.entries(LOCAL)) {
  test(`the port LocalUpstreams: ${name}: at the beginning no server fails, is full, listed or in use`, async () => {
    const upstreams = await make();
    for (const server of ['a', 'none']) {
      assert.equal(upstreams.failing(server), false);
      assert.equal(upstreams.failing(server, client), false);
      assert.equal(upstreams.capacity(server), 'free');
      assert.equal(upstreams.ownLists(server).size, 0);
      await upstreams.relist(server);
      await upstreams.relistFor(server, client);
    }
    await upstreams.surrender('none', client);
    await upstreams.handOver('none', null);
    assert.equal(upstreams.inFlight, 0);
    assert.equal(upstreams.sessionKey('a', client), null, 'the era of the server is not known yet');
    const exchange = toolCall(client);
    await upstreams.call('a', exchange.request, exchange);
    assert.equal(upstreams.inFlight, 0);
    assert.notEqual(upstreams.sessionKey('a', client), null);
    assert.notEqual(upstreams.sessionKey('a', client), upstreams.sessionKey('a', clientOf('other')));
    await upstreams.apply(new Map());
    assert.deepEqual(upstreams.servers(), []);
  });
}

const CORES: Readonly<Record<string, () => FakeCore | Gateway>> = {
  'the gateway': () => new GatewayBench({ a: { tools: [tool('echo')] } }).gateway,
  FakeCore: () => new FakeCore(),
};

for (const [name, make] of Object.entries(CORES)) {
  test(`the core behind the edges: ${name}: its results have the era of the client, and no message makes it throw`, async () => {
    const core = make();
    const bench = new GatewayBench();
    for (const era of ['stateful', 'stateless'] as const) {
      const listed = await core.run(bench.exchange('tools/list', null, { era }), MCP);
      assert.ok(listed.kind === 'answer' && listed.message.kind === 'result');
      assert.equal(listed.message.era, era);
      const odd = await core.run(bench.exchange('no/such-method', null, { era }), MCP);
      assert.ok(odd.kind === 'failure' && odd.error.code === 'METHOD_NOT_FOUND', `${era}: ${JSON.stringify(odd)}`);
      const profile = bench.exchange('ping', null, { era }).client;
      const handshake = await core.handshake(MCP, profile, 0);
      assert.ok(!(handshake instanceof GatewayError));
      assert.equal(typeof JSON.parse(handshake.serverInfo).version, 'string');
      assert.equal(typeof JSON.parse(handshake.capabilities), 'object');
      assert.equal(handshake.handshake, null);
      core.notify(MCP, notification('notifications/odd', null, era), profile);
    }
    core.sessionEnded('nobody');
  });
}

interface ClientsBench {
  readonly streams: ClientStreams;
  /** The latest message that the client of the session has received. */
  received(sessionId: string): Promise<{ readonly method?: string } | undefined>;
  /** Opens a session of a caller that may use server `a` only, unless `all`. Returns its id. */
  open(endpoint: 'aggregate' | 'a' | 'b', capabilities: object, all?: boolean): Promise<string>;
  /** Sets the answer of all clients that are asked from now on. */
  answers(result: string): void;
  close(): Promise<void>;
}

const CLIENTS: Readonly<Record<string, () => Promise<ClientsBench>>> = {
  'the real clients': async () => {
    const rig = await DownstreamRig.start({ servers: ['a', 'b'], agents: { all: null, few: ['a'] } });
    const streams = new Map<string, { readonly headers: Record<string, string>; readonly reader: EventReader }>();
    let reply = '{}';
    return {
      streams: rig.downstream,
      open: async (endpoint, capabilities, all = false) => {
        const path = endpoint === 'aggregate' ? '/mcp' : `/servers/${endpoint}/mcp`;
        const authorization = `Bearer key-of-${all ? 'all' : 'few'}`;
        const headers = await rig.session({ path, capabilities, headers: { authorization } });
        const reader = await rig.listen(headers, path);
        // Inside the gateway a session is known by the digest of its id.
        const { id } = [...rig.downstream.sessions.values()].find((session) => !streams.has(session.id))!;
        streams.set(id, { headers, reader });
        return id;
      },
      received: async (sessionId) => {
        const { headers, reader } = streams.get(sessionId)!;
        const message = await reader.message();
        if (message?.id !== undefined) {
          await rig.post(`{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":${reply}}`, headers);
        }
        return message;
      },
      answers: (result) => {
        reply = result;
      },
      close: () => rig.close(),
    };
  },
  'FakeStreams of the gateway': async () => {
    const fake = new FakeStreams();
    return {
      streams: fake,
      open: async (endpoint, capabilities, all = false) => {
        const sessionId = `s${fake.sessions.length}`;
        const servers = endpoint === 'aggregate' ? (all ? ['a', 'b'] : ['a']) : [endpoint];
        const kind = endpoint === 'aggregate' ? 'aggregate' : 'server';
        fake.sessions.push({ sessionId, endpoint: kind, servers, capabilities: JSON.stringify(capabilities) });
        return sessionId;
      },
      received: async (sessionId) =>
        [...fake.delivered, ...fake.asked].findLast((one) => one.sessionId === sessionId)?.message,
      answers: (result) => {
        fake.reply = result;
      },
      close: async () => {},
    };
  },
};

for (const [name, make] of Object.entries(CLIENTS)) {
  test(`the port ClientStreams: ${name}: open sessions get messages and declared input requests, others nothing`, async () => {
    const bench = await make();
    const { streams } = bench;
    try {
      const all = await bench.open('aggregate', { roots: {} }, true);
      const few = await bench.open('aggregate', {});
      const own = await bench.open('b', {}, true);
      const sessions = (server: string) =>
        new Map([...streams.sessionsFor(server)].map(({ sessionId, endpoint }) => [sessionId, endpoint]));
      const aggregate = 'aggregate' as const;
      assert.deepEqual(
        sessions('a'),
        new Map([
          [all, aggregate],
          [few, aggregate],
        ]),
      );
      assert.deepEqual(
        sessions('b'),
        new Map<string, string>([
          [all, aggregate],
          [own, 'server'],
        ]),
      );

      const changed = notification('notifications/tools/list_changed', null, 'stateful');
      streams.deliver(few, changed);
      assert.equal((await bench.received(few))?.method, changed.method);
      streams.deliver('none', changed);

      bench.answers('{"roots":[]}');
      const asked = request('roots/list', '7', null, 'stateful');
      for (const sessionId of ['none', few]) {
        await assert.rejects(streams.ask(sessionId, asked), { code: 'MISSING_CAPABILITY' });
      }
      const answered = streams.ask(all, asked);
      assert.equal((await bench.received(all))?.method, asked.method);
      const reply = await answered;
      assert.deepEqual([reply.kind, reply.era, reply.body.toString()], ['result', 'stateful', '{"roots":[]}']);
      assert.notEqual(reply.kind === 'result' && reply.id, '7', 'the id is the gateway’s own');
    } finally {
      await bench.close();
    }
  });
}
