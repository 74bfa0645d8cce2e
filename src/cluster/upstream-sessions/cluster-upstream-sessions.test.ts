import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterBench, losing, type PlayedNode } from '../../../test/support/cluster-bench.ts';
import {
  type Params,
  ScriptedServer,
  type ScriptedTransport,
  SILENCE,
  statefulServer,
} from '../../../test/support/scripted-server.ts';
import { answerText, clientOf, httpServerOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';

const WEB = httpServerOf('web');

/** An HTTP server with a count in each of its sessions. */
class Web extends ScriptedServer {
  readonly counts = new Map<string, number>();
  readonly levels: string[] = [];
  /** Leaves `initialize` without an answer, for as long as it is set. */
  hangs = false;
  #made = 0;

  constructor() {
    super({});
    const { initialize, ...rest } = statefulServer();
    Object.assign(this.handlers, {
      ...rest,
      initialize: (params: Params, link: ScriptedTransport, id: number) => {
        if (this.hangs) return SILENCE;
        const session = `upstream-${++this.#made}`;
        this.counts.set(session, 0);
        link.sessionId(session);
        const hello = initialize!(params, link, id) as { capabilities: object };
        return { ...hello, capabilities: { ...hello.capabilities, logging: {} } };
      },
      ping: (_params: Params, link: ScriptedTransport) => (this.#known(link) === null ? SILENCE : {}),
      'tools/call': (_params: Params, link: ScriptedTransport) => {
        const session = this.#known(link);
        if (session === null) return SILENCE;
        const count = (this.counts.get(session) ?? 0) + 1;
        this.counts.set(session, count);
        return { content: [{ type: 'text', text: `${session} ${count}` }] };
      },
      'logging/setLevel': ({ level }: Params) => {
        this.levels.push(String(level));
        return {};
      },
    });
  }

  get initializes(): number {
    return this.links.reduce((sum, link) => sum + link.count('initialize'), 0);
  }

  /** Deleted sessions, one entry for each deletion. */
  get deleted(): string[] {
    return this.links
      .filter((link) => link.closedWith === 'remove')
      .map((link) => sessionOf(link)!)
      .sort();
  }

  /** Sessions with a listening connection, one entry for each connection. */
  get listened(): string[] {
    return this.live.filter((link) => link.listening).map((link) => sessionOf(link)!);
  }

  linksOf(session: string): ScriptedTransport[] {
    return this.live.filter((link) => sessionOf(link) === session);
  }

  forgetSessions(): void {
    this.counts.clear();
  }

  /** As over HTTP: a 404 to this request ends the connection, and unanswered requests were not executed. */
  #known(link: ScriptedTransport): string | null {
    const session = sessionOf(link);
    if (session !== null && this.counts.has(session)) return session;
    link.end({ kind: 'session_lost' }, 'NOT_SENT');
    return null;
  }
}

/** The node of each connection. */
const NODES = new WeakMap<ScriptedTransport, string>();
const MADE = new WeakMap<ScriptedTransport, string>();

function sessionOf(link: ScriptedTransport): string | null {
  return link.facts?.resumeSessionId ?? MADE.get(link) ?? null;
}

/** A node, with the servers of its own. */
interface Node extends PlayedNode {
  readonly upstreams: UpstreamBench;
}

class Bench {
  readonly cluster = new ClusterBench();
  readonly web = new Web();

  constructor() {
    const open = this.web.open.bind(this.web);
    this.web.open = (...args) => {
      const link = open(...args);
      const { sessionId } = link;
      link.sessionId = (id) => {
        MADE.set(link, id);
        sessionId.call(link, id);
      };
      return link;
    };
  }

  async node(id: string, more: object = {}): Promise<Node> {
    const node = await this.cluster.join(id, [WEB], more);
    const { clock } = this.cluster;
    const upstreams = new UpstreamBench({ clock, sharedUpstreamSessions: node.cluster.upstreamSessions });
    const { web } = this;
    const itsWeb: ScriptedServer = Object.create(web, {
      open: {
        value: (...args: Parameters<ScriptedServer['open']>) => {
          const link = web.open(...args);
          NODES.set(link, id);
          return link;
        },
      },
    });
    await upstreams.run([WEB, itsWeb]);
    return { ...node, upstreams };
  }

  async call({ upstreams }: Node, sessionId = 'one', logLevel: string | null = null): Promise<string> {
    const client = clientOf(sessionId, '{}', { logLevel });
    const text = answerText(await this.cluster.until(upstreams.call('web', toolCall(client))));
    return JSON.parse(text).result.content[0].text;
  }

  async dispose(nodes: readonly Node[]): Promise<void> {
    for (const { upstreams } of nodes) await this.cluster.until(upstreams.set.close('shutdown'));
    await this.cluster.dispose();
  }
}

async function three(run: (bench: Bench, nodes: [Node, Node, Node]) => Promise<void>): Promise<void> {
  const bench = new Bench();
  const nodes: [Node, Node, Node] = [await bench.node('a'), await bench.node('b'), await bench.node('c')];
  try {
    await run(bench, nodes);
  } finally {
    await bench.dispose(nodes);
  }
}

test('S0.18 check:C4 calls of one session at three nodes use one session of the server, initialised once, without a repeated id', () =>
  three(async (bench, nodes) => {
    const { web } = bench;
    const answers: string[] = [];
    for (let i = 0; i < 9; i++) answers.push(await bench.call(nodes[i % 3]!));
    assert.deepEqual(
      answers,
      Array.from({ length: 9 }, (_, i) => `upstream-1 ${i + 1}`),
    );
    assert.equal(web.initializes, 1);
    const ids = web
      .linksOf('upstream-1')
      .flatMap((link) => link.seen.map(({ id }) => id).filter((id) => id !== undefined));
    assert.equal(new Set(ids).size, ids.length);
    // Another session uses another session of the server.
    assert.equal(await bench.call(nodes[1], 'two'), 'upstream-2 1');
    assert.equal(await bench.call(nodes[0], 'two'), 'upstream-2 2');
    assert.equal(web.initializes, 2);
  }));

test('fault:F22 check:C7 S0.20 one call of those that get the 404 initializes a forgotten session again, and its loss is reported once', () =>
  three(async (bench, nodes) => {
    const { web } = bench;
    for (const node of nodes) await bench.call(node, 'one', 'debug');
    assert.equal(web.initializes, 1);
    assert.deepEqual(web.levels, ['debug']);
    web.forgetSessions();
    const calls = Array.from({ length: 12 }, (_, i) => bench.call(nodes[i % 3]!, 'one', 'debug'));
    const counts = (await Promise.all(calls)).map((text) => Number(text.split(' ')[1])).sort((x, y) => x - y);
    assert.deepEqual(
      counts,
      Array.from({ length: 12 }, (_, i) => i + 1),
    );
    assert.equal(web.initializes, 2);
    assert.deepEqual(web.levels, ['debug', 'debug']);
    assert.deepEqual(
      nodes.flatMap(({ upstreams }) => upstreams.events.lost),
      ['one'],
    );
  }));

test('fault:F22 a 404 of an earlier session does not end the present one', () =>
  three(async (bench, nodes) => {
    const { web } = bench;
    const [a, b, c] = nodes;
    for (const node of nodes) await bench.call(node);
    const [, , late] = web.linksOf('upstream-1');
    web.forgetSessions();
    assert.equal(await bench.call(a), 'upstream-2 1');
    assert.equal(await bench.call(b), 'upstream-2 2');
    // The third node learns only now that its session has ended.
    late!.end({ kind: 'session_lost' });
    assert.equal(await bench.call(c), 'upstream-2 3');
    assert.equal(await bench.call(a), 'upstream-2 4');
    assert.equal(web.initializes, 2);
  }));

test('check:C6 S0.19 a session unused for long, and that of a restarted node, continue', () =>
  three(async (bench, nodes) => {
    const { web } = bench;
    const [a, b] = nodes;
    assert.equal(await bench.call(a), 'upstream-1 1');
    await bench.cluster.pass((45 * 60_000) / 100);
    for (const { upstreams } of nodes) await bench.cluster.until(upstreams.set.close('shutdown'));
    assert.deepEqual(web.deleted, []);
    const again = await bench.node('a2');
    assert.equal(await bench.call(again), 'upstream-1 2');
    assert.equal(web.initializes, 1);
    assert.deepEqual([...a.upstreams.events.lost, ...b.upstreams.events.lost, ...again.upstreams.events.lost], []);
    await bench.cluster.until(again.upstreams.set.close('shutdown'));
  }));

test('check:C9 fault:F30 a node that dies while it opens a session: another opens it when the lease is over', () =>
  three(async (bench, nodes) => {
    const { web } = bench;
    const [a, b] = nodes;
    // Both have listed the server.
    for (const node of [a, b]) await bench.call(node, `first of ${node.id}`);
    web.hangs = true;
    void bench.call(a).catch(() => {});
    await bench.cluster.pass(100);
    a.cut();
    web.hangs = false;
    const before = bench.cluster.clock.now();
    const opened = web.initializes;
    assert.match(await bench.call(b), / 1$/);
    assert.ok(bench.cluster.clock.now() - before <= 3_000, `${bench.cluster.clock.now() - before} ms`);
    assert.equal(web.initializes, opened + 1);
    a.restore();
  }));

test('check:C9 a session ends at its server once, whichever nodes used it and notice its end', () =>
  three(async (bench, nodes) => {
    const { web } = bench;
    for (const node of nodes) await bench.call(node);
    for (const { upstreams } of nodes) upstreams.set.releaseSession('one');
    await bench.cluster.pass(3_000);
    assert.deepEqual(web.deleted, ['upstream-1']);
    // Also a session that no node has a connection for.
    const [a, b] = nodes;
    await bench.call(a, 'two');
    await bench.cluster.until(a.upstreams.set.close('shutdown'));
    b.upstreams.set.releaseSession('two');
    nodes[2].upstreams.set.releaseSession('two');
    await bench.cluster.pass(3_000);
    assert.deepEqual(web.deleted, ['upstream-1', 'upstream-2']);
    assert.equal(await bench.call(b), 'upstream-3 1');
  }));

test('check:C9 fault:F30 one node listens to a session; when it leaves another continues there, when it dies another begins again', () =>
  three(async (bench, nodes) => {
    const { web, cluster } = bench;
    const listener = (): ScriptedTransport => {
      const listening = web.linksOf('upstream-1').filter((link) => link.listening);
      assert.equal(listening.length, 1);
      return listening[0]!;
    };
    const atMostOne = (): void => assert.ok(web.listened.length <= 1, web.listened.join());
    for (const node of nodes) await bench.call(node);
    await cluster.pass(1_000, atMostOne);
    const first = listener();
    first.lastEventId = 'event-7';
    nodes.find(({ id }) => id === NODES.get(first))!.cluster.drain();
    await cluster.pass(200, atMostOne);
    const second = listener();
    assert.notEqual(second, first);
    assert.deepEqual(second.listened, [{ after: 'event-7', gap: false }]);
    const dead = nodes.find(({ id }) => id === NODES.get(second))!;
    dead.cut();
    await cluster.pass(3_000, atMostOne);
    const third = listener();
    assert.ok(third !== first && third !== second);
    assert.deepEqual(third.listened, [{ after: null, gap: true }]);
    // The node that returns does not take over.
    dead.restore();
    await cluster.pass(3_000, atMostOne);
    assert.equal(listener(), third);
  }));

test('fault:F28 while no node has a lease none listens, and afterwards the previous one continues', () =>
  three(async (bench, nodes) => {
    const { web, cluster } = bench;
    for (const node of nodes) await bench.call(node);
    await cluster.pass(1_000);
    assert.deepEqual(web.listened, ['upstream-1']);
    for (const node of nodes) node.cut();
    await cluster.pass(2_100);
    assert.deepEqual(web.listened, []);
    for (const node of nodes) node.restore();
    await cluster.pass(4_000, () => assert.ok(web.listened.length <= 1));
    assert.deepEqual(web.listened, ['upstream-1']);
  }));

test('fault:F28 while the store is away sessions go on, new ones belong to one node, and give way to a shared one', () =>
  three(async (bench, nodes) => {
    const { web, cluster } = bench;
    const [a, b] = nodes;
    for (const node of nodes) await bench.call(node);
    for (const node of nodes) node.cut();
    assert.equal(await bench.call(a), 'upstream-1 4');
    assert.equal(await bench.call(b), 'upstream-1 5');
    assert.equal(await bench.call(a, 'two'), 'upstream-2 1');
    assert.equal(await bench.call(b, 'two'), 'upstream-3 1');
    for (const node of nodes) node.restore();
    await cluster.pass(40_000);
    const now = await bench.call(a, 'two');
    assert.equal((await bench.call(b, 'two')).split(' ')[0], now.split(' ')[0]);
    assert.deepEqual(
      nodes.flatMap(({ upstreams }) => upstreams.events.lost),
      ['two'],
    );
    assert.equal(web.deleted.length, 1);
  }));

test('a reader of the cluster’s store does not learn the id of a session', () =>
  three(async (bench, [a]) => {
    await bench.call(a);
    const bucket = bench.cluster.state.bucket('trunkline_server_sessions', { ttlMs: 0 });
    const keys = await bucket.keys();
    assert.equal(keys.length, 1);
    const { value } = (await bucket.get(keys[0]!))!;
    assert.ok(value.length > 100);
    assert.ok(!value.includes('upstream-1'));
  }));

test('fault:F28 sessions in use are written again to a store that lost everything, and continue', async () => {
  const bench = new Bench();
  const { state, lose } = losing(bench.cluster);
  const nodes = [await bench.node('a', { state }), await bench.node('b', { state })] as const;
  const [a, b] = nodes;
  for (const node of nodes) await bench.call(node);
  await lose();
  await bench.cluster.pass(70_000);
  const late = await bench.node('c', { state });
  for (const node of [a, b, late]) assert.match(await bench.call(node), /^upstream-1 /);
  assert.equal(bench.web.initializes, 1);
  a.upstreams.set.releaseSession('one');
  b.upstreams.set.releaseSession('one');
  await bench.cluster.pass(3_000);
  assert.deepEqual(bench.web.deleted, ['upstream-1']);
  await bench.dispose([a, b, late]);
});

test('fault:F28 however often the store loses everything, no request id is issued twice in a session', async () => {
  const bench = new Bench();
  const { state, lose } = losing(bench.cluster);
  const nodes = [await bench.node('a', { state }), await bench.node('b', { state })];
  for (const node of nodes) await bench.call(node);
  for (const id of ['c', 'd']) {
    await lose();
    await bench.cluster.pass(70_000);
    const late = await bench.node(id, { state });
    nodes.push(late);
    for (const node of nodes) await bench.call(node);
  }
  assert.equal(bench.web.initializes, 1);
  const ids = bench.web
    .linksOf('upstream-1')
    .flatMap(({ seen }) => seen.map(({ id }) => id).filter((id) => id !== undefined));
  assert.ok(ids.every((id) => Number.isSafeInteger(id)));
  assert.equal(new Set(ids).size, ids.length);
  await bench.dispose(nodes);
});

test('a server whose handshake result exceeds the store’s limit has a session for each node, opened once', () =>
  three(async (bench, nodes) => {
    const { web, cluster } = bench;
    const [a, b] = nodes;
    const { initialize } = web.handlers;
    web.handlers.initialize = (...args) => ({ ...(initialize!(...args) as object), instructions: 'x'.repeat(600_000) });
    assert.equal(await bench.call(a), 'upstream-1 1');
    assert.equal(await bench.call(a), 'upstream-1 2');
    assert.equal(await bench.call(b), 'upstream-2 1');
    assert.equal(await bench.call(b), 'upstream-2 2');
    assert.deepEqual(web.listened.sort(), ['upstream-1', 'upstream-2'], 'each node listens to its own session');
    // Later checks do not open the sessions again.
    await cluster.pass(70_000);
    assert.equal(await bench.call(a), 'upstream-1 3');
    assert.equal(web.initializes, 2);
    for (const node of [a, b]) node.upstreams.set.releaseSession('one');
    await cluster.pass(3_000);
    assert.deepEqual(web.deleted, ['upstream-1', 'upstream-2']);
  }));
