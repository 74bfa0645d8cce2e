import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import type { Definition, DriftEvent } from '../model/drift.ts';
import { systemRandom } from '../model/random.ts';
import { StoreError } from '../store/run-time-store/run-time-store.ts';
import { SqliteRunTimeStore } from '../store/run-time-store/sqlite-run-time-store.ts';
import { type PinRecords, StoredPins } from '../store/run-time-store/stored-pins.ts';
import { Logger } from '../telemetry/logger.ts';
import { type ListedKinds, PinBook, PinsContended } from './pin-book.ts';

const tool = (key: string, digest = `d-${key}`): Definition => ({
  list: 'tools',
  key,
  digest,
  bytes: Buffer.from(`{"name":"${key}"}`),
});

/** As the table in the state file. */
function listedKinds(kept: Map<string, readonly string[]>): ListedKinds {
  return {
    get: (server) => kept.get(server) ?? null,
    set: (server, kinds) => kept.set(server, kinds),
    forget: (server) => kept.delete(server),
  };
}

function setUp() {
  const clock = new FakeClock();
  const runTimeStore = new SqliteRunTimeStore({ path: ':memory:', clock, logger: Logger.silent() });
  const marked = new Set<string>();
  const kinds = new Map<string, readonly string[]>();
  const desired = new Set<string>(['s']);
  const asked = { known: true };
  const logged: string[] = [];
  const logger = new Logger({ level: 'info', write: (line) => logged.push(line) });
  const open = (records: PinRecords = new StoredPins(runTimeStore, systemRandom)) =>
    PinBook.open({
      records,
      shared: false,
      marks: {
        has: (name) => marked.has(name),
        add: (name) => marked.add(name),
        delete: (name) => marked.delete(name),
      },
      kinds: listedKinds(kinds),
      clock,
      logger,
      desired: () => (asked.known ? desired : null),
    });
  return { clock, runTimeStore, open, logged, desired, asked, kinds };
}

/** Nodes that share one store, each without desired servers. */
function sharing() {
  const clock = new FakeClock();
  const runTimeStore = new SqliteRunTimeStore({ path: ':memory:', clock, logger: Logger.silent() });
  const logged: string[] = [];
  const logger = new Logger({ level: 'info', write: (line) => logged.push(line) });
  const node = (records: PinRecords = new StoredPins(runTimeStore, systemRandom)) => {
    const marks = new Set<string>();
    return PinBook.open({
      records,
      shared: true,
      marks: { has: (name) => marks.has(name), add: (name) => marks.add(name), delete: (name) => marks.delete(name) },
      kinds: listedKinds(new Map()),
      clock,
      logger,
      desired: () => new Set<string>(),
    });
  };
  return { clock, runTimeStore, logged, node };
}

const digests = (book: PinBook, key: string) =>
  book
    .of('s')
    .pins.get(`tools ${key}`)
    ?.approved.map(({ digest }) => digest);
const kinds = async (book: PinBook) => (await book.history('s', { limit: 50 })).map(({ kind }) => kind);

test('check:G4 first use is trusted once, and its pins are there after a restart', async () => {
  const { open, clock } = setUp();
  const book = await open();
  assert.equal(book.of('s').trustedAt, null);
  await book.trust('s', [tool('a'), tool('b')], '2 definitions');
  assert.equal(book.of('s').trustedAt, clock.wall());
  await book.trust('s', [tool('c')], 'again');
  const next = await open();
  assert.deepEqual([...next.of('s').pins.keys()], ['tools a', 'tools b']);
  assert.deepEqual(await kinds(next), ['trusted']);
});

test('check:G4 approval adds a definition, a block takes the name, approval returns it, and removal deletes it', async () => {
  const { open } = setUp();
  const book = await open();
  await book.trust('s', [tool('a'), tool('b')], '');
  await book.approve('s', [tool('a', 'new'), tool('a', 'other')], [{ list: 'tools', key: 'b' }], 'op');
  assert.deepEqual(digests(book, 'a'), ['d-a', 'new', 'other']);
  assert.equal(book.of('s').pins.has('tools b'), false);
  await book.block(
    's',
    [
      { list: 'tools', key: 'a' },
      { list: 'prompts', key: 'x' },
    ],
    'op',
  );
  assert.equal(book.of('s').pins.get('tools a')!.blocked?.by, 'op');
  assert.deepEqual(book.of('s').pins.get('prompts x')!.approved, []);
  await book.approve('s', [tool('a', 'new')], [], 'op');
  const next = await open();
  assert.deepEqual(digests(next, 'a'), ['d-a', 'other', 'new']);
  assert.equal(next.of('s').pins.get('tools a')!.blocked, null);
  assert.deepEqual((await kinds(next)).toSorted(), [
    'approved',
    'approved',
    'approved',
    'approved',
    'blocked',
    'blocked',
    'trusted',
  ]);
});

test('a name that is given twice is blocked and removed once', async () => {
  const { open } = setUp();
  const book = await open();
  await book.trust('s', [tool('a'), tool('b')], '');
  const twice = (key: string) => [1, 2].map(() => ({ list: 'tools', key }) as const);
  await book.block('s', twice('a'), 'op');
  assert.equal(book.of('s').pins.get('tools a')!.blocked?.by, 'op');
  await book.approve('s', [], twice('b'), 'op');
  assert.equal(book.of('s').pins.has('tools b'), false);
  assert.deepEqual((await kinds(book)).toSorted(), ['approved', 'blocked', 'trusted']);
});

test('check:G4 at most eight definitions are approved under one name', async () => {
  const { open } = setUp();
  const book = await open();
  for (let i = 0; i < 12; i++) await book.approve('s', [tool('a', `d${i}`)], [], 'op');
  assert.deepEqual(digests(book, 'a'), ['d4', 'd5', 'd6', 'd7', 'd8', 'd9', 'd10', 'd11']);
});

test('check:G4 a decision that cannot be stored does not count', async () => {
  const { open, runTimeStore } = setUp();
  const book = await open();
  await book.trust('s', [tool('a')], '');
  await runTimeStore.close();
  const before = book.of('s');
  await assert.rejects(book.approve('s', [tool('a', 'new')], [], 'op'));
  await assert.rejects(book.block('s', [tool('a')], 'op'));
  assert.equal(book.of('s'), before);
});

test('check:G4 a first use that cannot be stored holds for the process, is reported, and is stored with the next change', async () => {
  const { open, runTimeStore, logged } = setUp();
  const { state, port } = failing(runTimeStore);
  const book = await open(port);
  await book.trust('s', [tool('a')], '');
  assert.deepEqual(digests(book, 'a'), ['d-a']);
  assert.match(book.problem!, /the disk is full/);
  assert.ok(logged.some((line) => line.includes('pins_not_saved')));
  state.full = false;
  await book.block('s', [tool('b')], 'op');
  assert.equal(book.problem, null);
  const next = await open();
  assert.deepEqual([next.of('s').trustedAt !== null, [...next.of('s').pins.keys()]], [true, ['tools a', 'tools b']]);
});

test('check:G4 lost pins are reported', async () => {
  const { open, logged } = setUp();
  await (await open()).trust('s', [tool('a')], '');
  const empty = new SqliteRunTimeStore({ path: ':memory:', clock: new FakeClock(), logger: Logger.silent() });
  const book = await open(new StoredPins(empty, systemRandom));
  assert.equal(book.isLost('s'), true);
  assert.equal(book.isLost('another'), false);
  await book.trust('s', [], 'lost');
  assert.equal(book.isLost('s'), false);
  assert.ok(logged.some((line) => line.includes('pins_lost')));
});

test('check:G4 decisions of another node are merged before the next decision', async () => {
  const { open } = setUp();
  const [one, other] = [await open(), await open()];
  await one.approve('s', [tool('a', 'one')], [], 'op');
  await other.approve('s', [tool('a', 'two')], [], 'op');
  assert.deepEqual(digests(other, 'a'), ['one', 'two']);
  await one.trust('s', [tool('z')], 'late');
  assert.equal(one.of('s').pins.has('tools z'), false);
  const never: PinRecords = {
    load: async () => [],
    save: async () => false,
    history: async () => [],
    forget: async () => {},
  };
  await assert.rejects((await open(never)).approve('s', [tool('a')], [], 'op'), PinsContended);
});

test('check:G4 the oldest of the servers that come and go under new names are dropped, desired ones never', async () => {
  const { open, desired, clock, asked } = setUp();
  const book = await open();
  desired.add('kept');
  await book.trust('kept', [tool('a')], '');
  for (let i = 0; i < 1_010; i++) {
    await clock.advance(1);
    await book.trust(`passing-${i}`, [tool('a')], '');
  }
  // While the desired servers are unknown, no pins are dropped.
  asked.known = false;
  await book.trust('late', [tool('a')], '');
  assert.notEqual(book.of('passing-11').trustedAt, null);
  asked.known = true;
  const next = await open();
  for (const one of [book, next]) {
    assert.deepEqual(
      ['kept', 'passing-0', 'passing-10', 'passing-11', 'passing-1009'].map((name) => one.of(name).trustedAt !== null),
      [true, false, false, true, true],
    );
  }
  assert.equal(next.isLost('passing-0'), false);
  assert.deepEqual(await next.history('passing-0', { limit: 5 }), []);
});

test('check:G4 a node drops from a shared store only the pins that it trusted itself, and no node reports a loss', async () => {
  const { clock, runTimeStore, logged, node } = sharing();
  const [a, b] = [await node(), await node()];
  // The server is disabled at b, or b is away: a does not know of it.
  await b.trust('theirs', [tool('a')], '');
  await a.reload();
  for (let i = 0; i < 1_005; i++) {
    await clock.advance(1);
    await a.trust(`passing-${i}`, [tool('a')], '');
  }
  await b.reload();
  for (const book of [a, b]) {
    assert.notEqual(book.of('theirs').trustedAt, null);
    assert.equal(book.of('passing-0').trustedAt, null);
    assert.equal(book.isLost('passing-0'), false);
  }
  assert.equal(b.isLost('theirs'), false);
  assert.equal(
    logged.some((line) => line.includes('pins_lost')),
    false,
  );
  await runTimeStore.close();
});

test('check:G4 a node that is too late to trust a server does not report its pins as lost when they are dropped', async () => {
  const { runTimeStore, node, logged } = sharing();
  const [a, b] = [await node(), await node()];
  await b.trust('s', [tool('a')], '');
  // a has not read that yet.
  await a.trust('s', [tool('b')], '');
  assert.deepEqual(digests(a, 'b'), undefined);
  await new StoredPins(runTimeStore, systemRandom).forget('s');
  await a.reload();
  assert.equal(a.isLost('s'), false);
  await b.reload();
  assert.equal(b.isLost('s'), true, 'the node that trusted it misses them');

  await b.block('t', [tool('a')], 'op');
  await a.trust('t', [tool('a')], '');
  assert.deepEqual([a.of('t').trustedAt, a.isLost('t')], [null, false], 'blocked meanwhile: not trusted yet');
  await a.trust('t', [tool('b')], '');
  assert.notEqual(a.of('t').trustedAt, null);
  assert.equal(
    logged.some((line) => line.includes('pins_lost')),
    false,
  );
  await runTimeStore.close();
});

/** A node that cannot write while `full`. */
function failing(runTimeStore: SqliteRunTimeStore) {
  const records = new StoredPins(runTimeStore, systemRandom);
  const state = { full: true };
  const port: PinRecords = {
    load: () => records.load(),
    save: (server, change) =>
      state.full ? Promise.reject(new StoreError('full', 'the disk is full')) : records.save(server, change),
    history: (server, options) => records.history(server, options),
    forget: (server) => records.forget(server),
  };
  return { state, port };
}

const NOTE: DriftEvent = {
  at: 1,
  kind: 'changed',
  name: { list: 'tools', key: 'a' },
  digest: 'd',
  before: null,
  severity: 'wording',
  by: null,
  text: '',
};

for (const reads of [true, false])
  test(`check:G4 trust that could not be saved gives way to the decision of another node, which this node has ${reads ? '' : 'not '}read`, async () => {
    const { runTimeStore, node } = sharing();
    const { state, port } = failing(runTimeStore);
    const [a, b] = [await node(port), await node()];
    await a.trust('s', [tool('a', 'own'), tool('evil')], '');
    await b.trust('s', [tool('a'), tool('evil')], '');
    await b.block('s', [tool('evil')], 'op');
    if (reads) await a.reload();
    state.full = false;
    await a.note('s', [NOTE]);
    await a.approve('s', [tool('c')], [], 'op');
    await b.reload();
    for (const book of [a, b]) {
      assert.deepEqual(digests(book, 'a'), ['d-a']);
      assert.equal(book.of('s').pins.get('tools evil')!.blocked?.by, 'op');
    }
    assert.equal(a.problem, null);
    assert.deepEqual((await kinds(b)).toSorted(), ['approved', 'blocked', 'changed', 'trusted']);
    await runTimeStore.close();
  });

test('check:G4 a name that another node blocked stays blocked when this node trusts the server', async () => {
  const { runTimeStore, node } = sharing();
  const { state, port } = failing(runTimeStore);
  const [a, b] = [await node(port), await node()];
  await a.trust('s', [tool('a'), tool('evil')], '');
  await b.block('s', [tool('evil')], 'op');
  await a.reload();
  state.full = false;
  await a.note('s', [NOTE]);
  await b.reload();
  for (const book of [a, b]) {
    assert.notEqual(book.of('s').trustedAt, null);
    assert.deepEqual(digests(book, 'a'), ['d-a']);
    assert.equal(book.of('s').pins.get('tools evil')!.blocked?.by, 'op');
  }
  await runTimeStore.close();
});

test('check:G4 a definition whose name is too long to be pinned is not reported as approved', async () => {
  const { open } = setUp();
  const book = await open();
  await book.approve('s', [tool('a'), tool('x'.repeat(1_025))], [], 'op');
  assert.deepEqual([...book.of('s').pins.keys()], ['tools a']);
  assert.deepEqual(await kinds(book), ['approved']);
});

test('check:G4 the first 128 kinds of client of a server are remembered, and further ones do not count as new', async () => {
  const { open, kinds } = setUp();
  const book = await open();
  const first = Array.from({ length: 300 }, (_, n) => book.isFirstListing('s', `stateful ${n}`));
  assert.deepEqual([first.indexOf(false), first.lastIndexOf(true), kinds.get('s')?.length], [128, 127, 128]);
  assert.equal(book.isFirstListing('other', 'stateful 0'), true);
  const next = await open();
  assert.deepEqual(
    ['stateful 0', 'stateful 127'].map((kind) => next.isFirstListing('s', kind)),
    [false, false],
  );
});

test('the kinds of client of a server whose pins are dropped are forgotten', async () => {
  const { open, clock, kinds } = setUp();
  const book = await open();
  for (let i = 0; i < 1_001; i++) {
    await clock.advance(1);
    book.isFirstListing(`passing-${i}`, 'stateful 0');
    await book.trust(`passing-${i}`, [tool('a')], '');
  }
  assert.deepEqual([kinds.size, kinds.has('passing-0')], [1_000, false]);
});
