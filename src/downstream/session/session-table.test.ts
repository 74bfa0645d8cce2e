import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { ANONYMOUS, type Principal } from '../../model/client-profile.ts';
import { AGGREGATE } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure } from '../../model/outcome.ts';
import type { SessionCensus, SessionRecord } from '../../model/ports.ts';
import { systemRandom } from '../../model/random.ts';
import { request } from '../../protocol/compose.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { Fingerprints } from '../endpoints/fingerprints.ts';
import { ClientExchange } from './client-exchange.ts';
import type { SessionChannel } from './client-session.ts';
import { SessionManager } from './session-manager.ts';
import { SessionTable } from './session-table.ts';

const ADA: Principal = { id: 'agent:ada', name: 'ada', servers: null };
const NO_CHANNEL: SessionChannel = {
  open: false,
  deliver: () => {},
  ask: () => Promise.reject(new Error('no client listens')),
  sendCancellation: () => {},
  close: () => {},
};
const OTHER = { kind: 'server', server: 'memory', path: '/servers/memory/mcp' } as const;

interface TableOptions {
  readonly max?: number;
  readonly maxPerPrincipal?: number;
  readonly records?: Map<string, SessionRecord>;
  readonly memoryScarce?: () => boolean;
  /** Number of nodes of the cluster. */
  readonly nodes?: number;
}

function table(options: TableOptions = {}) {
  const clock = new FakeClock();
  const records = options.records ?? new Map<string, SessionRecord>();
  const ended: string[] = [];
  const forgotten: string[] = [];
  const sessions = new SessionTable({
    clock,
    random: systemRandom,
    records: {
      get: async (id) => records.get(id) ?? null,
      put: (record) => void records.set(record.id, record),
      delete: (id) => void records.delete(id),
      visit: async (visitor) => void [...records.values()].some(visitor),
      all: async () => [...records.values()],
      ...(options.nodes === undefined ? {} : { census: censusOf(records, options.nodes, clock) }),
    },
    events: { append: () => '1', after: async () => null, forget: (id) => void forgotten.push(id) },
    fingerprints: new Fingerprints(),
    settings: () => ({ idleMs: 1_800_000, max: options.max ?? 100, maxPerPrincipal: options.maxPerPrincipal ?? 100 }),
    onEnded: (sessionId) => void ended.push(sessionId),
    durations: new Metrics().histogram('d', 'd', ['v']),
    memoryScarce: options.memoryScarce ?? (() => false),
  });
  const create = (principal = ANONYMOUS, persistent = true) =>
    sessions.create({
      principal,
      endpoint: AGGREGATE,
      revision: '2025-11-25',
      capabilities: '{"x":1.0}',
      info: null,
      persistent,
    });
  return { clock, records, ended, forgotten, sessions, create };
}

function censusOf(records: ReadonlyMap<string, SessionRecord>, nodes: number, clock: FakeClock): SessionCensus {
  const of = (principal: string | null) =>
    [...records.values()].filter((record) => principal === null || record.principal === principal);
  return {
    nodes,
    count: (principal) => of(principal).length,
    longestUnused: (principal, unusedMs) =>
      of(principal)
        .filter(({ lastSeenAt }) => clock.wall() - lastSeenAt >= unusedMs)
        .sort((a, b) => a.lastSeenAt - b.lastSeenAt)[0] ?? null,
  };
}

test('check:C9 in a cluster a full table refuses and ends no session of another node: idle ones are read again when they return', async () => {
  const records = new Map<string, SessionRecord>();
  const there = table({ records, nodes: 2, max: 20 });
  const here = table({ records, nodes: 2, max: 20 });
  const [mine, theirs] = [here, there].map(({ create }) => Array.from({ length: 20 }, () => create()));
  for (const sessions of [theirs!, mine!]) {
    for (const { mcpSessionId, id } of sessions) {
      assert.equal((await here.sessions.load(mcpSessionId, ANONYMOUS, AGGREGATE))?.id, id);
    }
    assert.equal(here.sessions.size, 20);
  }
  assert.deepEqual([records.size, here.ended, there.ended], [40, [], []]);
  assert.throws(() => here.create(), { code: 'OVERLOADED' });

  // Sessions in use stay, and the table is larger than it should be.
  for (const session of here.sessions.values()) session.channel = { ...NO_CHANNEL, open: true };
  for (const { mcpSessionId } of theirs!) await here.sessions.load(mcpSessionId, ANONYMOUS, AGGREGATE);
  assert.equal(here.sessions.size, 21);
  assert.deepEqual([here.ended, records.size], [[], 40]);
});

test('check:C9 in a cluster new sessions are limited by the number on all nodes, and the one unused for longest gives way', async () => {
  const records = new Map<string, SessionRecord>();
  const here = table({ records, nodes: 3, max: 100, maxPerPrincipal: 2 });
  const sessions = Array.from({ length: 6 }, () => here.create(ADA));
  assert.throws(() => here.create(ADA), { code: 'OVERLOADED' });
  here.create();
  const oldest = records.get(sessions[0]!.id)!;
  records.set(oldest.id, { ...oldest, lastSeenAt: oldest.lastSeenAt - 600_000 });
  here.create(ADA);
  assert.deepEqual(here.ended, [oldest.id]);
  assert.throws(() => here.create(ADA), { code: 'OVERLOADED' });
});

test('fault:F19 check:C5 an unused session ends after its idle time; one timer watches all', async () => {
  const { clock, sessions, records, ended, create } = table();
  const used = create();
  const abandoned = Array.from({ length: 50 }, () => create().id);
  assert.equal(clock.pending, 1);
  for (let minutes = 0; minutes < 29; minutes++) {
    await clock.advance(60_000);
    used.useAs(ANONYMOUS, clock.now());
  }
  assert.equal(sessions.size, 51);
  await clock.advance(120_000);
  assert.equal(sessions.size, 1);
  assert.deepEqual(new Set(ended), new Set(abandoned));
  assert.deepEqual([...records.keys()], [used.id]);
  await clock.advance(1_800_000);
  assert.equal(sessions.size, 0);
});

test('the time of last use is written late, within a limit', async () => {
  const { clock, records, create } = table();
  const session = create();
  const seen = () => records.get(session.id)!.lastSeenAt;
  const created = seen();
  session.useAs(ANONYMOUS, clock.now() + 30_000);
  await clock.advance(30_000);
  assert.equal(seen(), created);
  await clock.advance(60_000);
  session.useAs(ANONYMOUS, clock.now());
  await clock.advance(15_000);
  assert.equal(seen(), created + 90_000);
});

test('S2.38 a session survives its process, for its owner on its endpoint', async () => {
  const first = table();
  const session = first.create(ADA);
  session.initialized = true;
  session.logLevel = 'debug';
  first.sessions.save(session);
  first.sessions.close();
  const { sessions } = table({ records: first.records });
  const [stranger, owner, elsewhere] = await Promise.all([
    sessions.load(session.mcpSessionId, ANONYMOUS, AGGREGATE),
    sessions.load(session.mcpSessionId, ADA, AGGREGATE),
    sessions.load(session.mcpSessionId, ADA, OTHER),
  ]);
  assert.equal(stranger?.belongsTo(ANONYMOUS, AGGREGATE) ?? false, false);
  assert.equal(elsewhere?.belongsTo(ADA, OTHER) ?? false, false);
  assert.equal(owner?.belongsTo(ADA, AGGREGATE), true);
  assert.equal(owner?.client.capabilities, '{"x":1.0}');
  assert.equal(owner?.initialized, true);
  assert.equal(owner?.client.logLevel, 'debug');
  assert.equal(sessions.size, 1);
  assert.equal(await sessions.load('no such id', ADA, AGGREGATE), null);
});

test('stored sessions that expired without a running process are gone', async () => {
  const first = table();
  const id = first.create().id;
  const gone = first.create();
  const old = { ...first.records.get(gone.id)!, lastSeenAt: first.clock.wall() - 2_000_000 };
  first.records.set(old.id, old);
  const { sessions, records, forgotten, ended } = table({ records: first.records });
  assert.equal(await sessions.load(gone.mcpSessionId, ANONYMOUS, AGGREGATE), null);
  records.set(old.id, old);
  await sessions.clean();
  assert.deepEqual([...records.keys()], [id]);
  assert.ok(forgotten.includes(old.id));
  assert.deepEqual(ended, [old.id, old.id], 'data of the session that others keep is dropped as well');
});

test('stored sessions whose client does not return are removed later, too, not only at the start', async () => {
  const first = table();
  const left = first.create();
  const { clock, sessions, records, ended } = table({ records: first.records });
  const used = sessions.create({
    principal: ANONYMOUS,
    endpoint: AGGREGATE,
    revision: '2025-11-25',
    capabilities: '{}',
    info: null,
    persistent: true,
  });
  await sessions.clean();
  assert.ok(records.has(left.id), 'its client may still return');
  for (let minutes = 0; minutes < 45; minutes++) {
    await clock.advance(60_000);
    used.useAs(ANONYMOUS, clock.now());
  }
  assert.deepEqual([...records.keys()], [used.id]);
  assert.deepEqual(ended, [left.id]);
});

test('fault:F40 no session opens while memory is too short; existing ones go on', () => {
  let memoryScarce = false;
  const { sessions, create } = table({ memoryScarce: () => memoryScarce });
  const { mcpSessionId } = create();
  memoryScarce = true;
  assert.throws(() => create(), { code: 'OVERLOADED' });
  assert.notEqual(sessions.find(mcpSessionId), undefined);
  memoryScarce = false;
  create();
  assert.equal(sessions.size, 2);
});

test('fault:F19 a table full of sessions in use refuses new ones; an old idle session gives way', async () => {
  const { clock, sessions, create, ended } = table({ max: 3, maxPerPrincipal: 2 });
  const oldest = create(ADA);
  await clock.advance(1_000);
  create(ADA);
  assert.throws(() => create(ADA), { code: 'OVERLOADED' });
  create();
  assert.throws(() => create(), { code: 'OVERLOADED' });
  await clock.advance(300_000);
  const next = create(ADA);
  assert.deepEqual(ended, [oldest.id]);
  assert.equal(sessions.get(next.id), next);
  assert.equal(sessions.find(next.mcpSessionId), next);
  assert.equal(sessions.find(next.id), undefined, 'the stored id opens no session');
  assert.equal(sessions.find(oldest.mcpSessionId), undefined);
  assert.equal(sessions.size, 3);
});

test('a session that lives with its stream leaves no record', () => {
  const { sessions, records, create } = table();
  const session = create(ANONYMOUS, false);
  assert.equal(records.size, 0);
  sessions.end(session, 'gone');
  sessions.end(session, 'gone');
  assert.equal(sessions.size, 0);
});

test('S2.38 check:C5 SessionManager: create, get, touch, delete, list, cleanup', async () => {
  const { clock, sessions, ended } = table();
  const manager = new SessionManager(sessions, () => clock.now());
  const session = manager.create({ name: 'cli', version: '1' });
  const stored = sessions.find(session.id)!.id;
  assert.match(session.id, /^[0-9a-f]{32}$/);
  assert.deepEqual(session.clientInfo, { name: 'cli', version: '1' });
  assert.equal(session.initialized, false);
  assert.equal(session.createdAt.getTime(), clock.wall());
  await clock.advance(10_000);
  assert.equal(manager.get(session.id)?.lastSeen.getTime(), clock.wall() - 10_000);
  assert.equal(manager.touch(session.id), true);
  assert.equal(manager.get(session.id)?.lastSeen.getTime(), clock.wall());
  const other = manager.create();
  assert.deepEqual(
    manager.list().map(({ id }) => id),
    [session.id, other.id],
  );
  await clock.advance(5_000);
  manager.touch(other.id);
  assert.equal(manager.cleanup(5_000), 1);
  assert.deepEqual(ended, [stored]);
  assert.equal(manager.get(session.id), null);
  assert.equal(manager.touch(session.id), false);
  assert.equal(manager.delete(other.id), true);
  assert.equal(manager.delete(other.id), false);
  assert.deepEqual(manager.list(), []);
});

test('fault:F19 a client that left while it waited for a task keeps its session as long as it may return', async () => {
  const { clock, sessions, create } = table();
  const session = create();
  let unheard = true;
  const reply = {
    canAsk: true,
    get isDisconnected() {
      return unheard;
    },
    notify: () => {},
    askFor: () => Promise.reject(new Error('not asked')),
    answer: () => {},
    cancelled: (exchange: ClientExchange) => session.exchanges.remove(exchange),
  };
  const [waits, works] = ['tasks/result', 'tools/call'].map((method) => {
    const exchange = new ClientExchange(request(method, `"${method}"`, '{}', 'stateful'), session.client, reply);
    session.exchanges.add(exchange);
    return exchange;
  });
  await clock.advance(4 * 60_000);
  unheard = false;
  await clock.advance(4 * 60_000);
  assert.equal(waits!.cancelled, null, 'the client came back');
  unheard = true;
  await clock.advance(4 * 60_000);
  assert.equal(waits!.cancelled, null);
  await clock.advance(2 * 60_000);
  assert.equal(waits!.cancelled, 'the client has gone and did not come back');
  assert.equal(works!.cancelled, null, 'a lost connection is no cancellation of a call');
  for (const exchange of [waits!, works!]) {
    exchange.cancel('over');
    exchange.finish(failure(new GatewayError('CANCELLED', 'over')));
  }
  await clock.advance(31 * 60_000);
  assert.equal(sessions.size, 0);
});

test('a client whose session ends with its stream or pipe is known as temporary', () => {
  const { create } = table();
  assert.deepEqual(
    [true, false].map((lasting) => create(ANONYMOUS, lasting).client.passing === true),
    [false, true],
  );
});

test('check:C5 a session written by another process is valid here too, and its use there keeps it from being idle here', async () => {
  const { clock, sessions, records, ended, create } = table();
  const { id } = create();
  const session = sessions.get(id)!;
  const first = session.lastUsed;
  await clock.advance(1_700_000);
  const lastSeenAt = clock.wall() - 60_000;
  sessions.applyRecord({ ...records.get(id)!, initialized: true, logLevel: 'warning', lastSeenAt });
  assert.deepEqual([session.initialized, session.client.logLevel], [true, 'warning']);
  assert.equal(session.lastUsed - first, 1_640_000);
  await clock.advance(1_700_000);
  assert.deepEqual(ended, []);
  // A record with an older use changes nothing.
  sessions.applyRecord({ ...records.get(id)!, lastSeenAt: lastSeenAt - 1_000_000 });
  assert.deepEqual([session.initialized, session.lastUsed - first], [true, 1_640_000]);
  sessions.applyRecord({ ...records.get(id)!, id: 'unknown here' });
  await clock.advance(60_000);
  assert.deepEqual(ended, [id]);
});

test('check:C9 in a cluster a session does not end here before another node that uses it has saved its use', async () => {
  const { clock, sessions, records, ended, create } = table({ nodes: 2 });
  const [{ id }, passing] = [create(), create(ANONYMOUS, false)];
  await clock.advance(1_860_000);
  assert.deepEqual(ended, [passing.id], 'no other node can use it');
  sessions.applyRecord({ ...records.get(id)!, lastSeenAt: clock.wall() - 15_000 });
  await clock.advance(1_845_000);
  assert.deepEqual(ended, [passing.id]);
  await clock.advance(15_000);
  assert.deepEqual(ended, [passing.id, id]);
});

test('check:C9 a full table keeps a session whose client has a question to answer, or may still resume its stream', async () => {
  const { clock, sessions, create } = table({ nodes: 10, max: 2 });
  const [asked, left] = [create(), create()];
  const question = asked.asks('a', clock).open(null, { server: 'x', id: '1', token: '' }, () => {});
  question.answer.catch(() => {});
  left.channel = { ...NO_CHANNEL, disconnected: true };
  const unused = create();
  const stream = unused.nextStream('a', 'p');
  create();
  assert.deepEqual([sessions.get(unused.id), sessions.size], [undefined, 3]);
  const again = (await sessions.load(unused.mcpSessionId, ANONYMOUS, AGGREGATE))!;
  assert.notEqual(again, unused);
  assert.notEqual(again.nextStream('a', 'p'), stream);
  await clock.advance(300_000);
  create();
  assert.deepEqual([sessions.get(asked.id), sessions.get(left.id)], [asked, undefined]);
});

test('check:C9 a node that has just read a session saves its use, however short', async () => {
  const first = table();
  const { id, mcpSessionId } = first.create();
  const { clock, records, sessions } = table({ records: first.records, nodes: 2 });
  await clock.advance(1_200_000);
  await sessions.load(mcpSessionId, ANONYMOUS, AGGREGATE);
  const used = clock.wall();
  await clock.advance(15_000);
  assert.equal(records.get(id)!.lastSeenAt, used);
});
