import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StatementSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { deserialize } from 'node:v8';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { Sealer } from '../gateway/sealer.ts';
import { sealingOf } from '../model/sealing.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import { Logger } from '../telemetry/logger.ts';
import { DataFolder } from './data-folder.ts';
import { SqliteEventLog } from './event-log.ts';
import { SqliteEraVerdicts, SqliteKinds, SqliteSessionRecords, SqliteUpstreamSessions } from './remembered.ts';
import { StateFile } from './state-file.ts';
import { SqliteKnownCatalogs } from './structured-records.ts';

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'trunkline-store-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

function open(name: string, clock = new FakeClock()) {
  return { clock, state: new StateFile({ path: join(folder, name), clock, logger: Logger.silent() }) };
}

const session = {
  id: 'a'.repeat(32),
  principal: 'anonymous',
  endpoint: '/mcp',
  revision: '2025-11-25',
  capabilities: '{"x":12345678901234567890}',
  info: null,
  initialized: true,
  logLevel: null,
  createdAt: 1,
  lastSeenAt: 2,
};

test('a session record is on disk 100 ms after it was put, and absent after it was deleted', async () => {
  const { clock, state } = open('sessions.db');
  const records = new SqliteSessionRecords(state);
  records.put(session);
  assert.deepEqual(await records.get(session.id), session, 'queued writes are visible at once');
  await clock.advance(100);
  const other = new SqliteSessionRecords(open('sessions.db').state);
  assert.deepEqual(await other.get(session.id), session);
  records.delete(session.id);
  assert.equal(await records.get(session.id), null);
  assert.deepEqual(await records.all(), []);
  await clock.advance(100);
  assert.deepEqual(await other.all(), []);
});

test('a new record that is deleted before it is written never reaches the disk', async (t) => {
  const { clock, state } = open('unwritten.db');
  const { mock } = t.mock.method(StatementSync.prototype, 'run');
  const records = new SqliteSessionRecords(state);
  records.put(session, true);
  records.put({ ...session, lastSeenAt: 3 });
  records.delete(session.id);
  await clock.advance(200);
  assert.equal(mock.callCount(), 0);
  records.put(session, true);
  await clock.advance(200);
  assert.equal(mock.callCount(), 1);
  records.delete(session.id);
  await clock.advance(200);
  assert.equal(state.get('session', session.id), null, 'a record in the file is deleted');
  records.put(session);
  records.delete(session.id);
  records.put(session, true);
  records.delete(session.id);
  assert.equal(await records.get(session.id), null);
});

test('writes of more than one batch all reach the disk; the newest of a record wins', async () => {
  const { clock, state } = open('batches.db');
  for (let i = 0; i < 1300; i++) state.put('b', `k${i}`, Buffer.from(`${i}`));
  state.put('b', 'k0', Buffer.from('new'));
  await clock.advance(300);
  const all = open('batches.db').state.all('b');
  assert.equal(all.size, 1300);
  assert.equal(all.get('k0')?.toString(), 'new');
});

const [OLD, NEW] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)];
const sealing = new Sealer(OLD);

test('an upstream session that ends before it is written is never sealed; one that stays is sealed once', async () => {
  const { clock, state } = open('sealed-late.db');
  let seals = 0;
  const counting = {
    seal: (context: string, text: string) => {
      seals++;
      return sealing.seal(context, text);
    },
    open: (context: string, sealed: string) => sealing.open(context, sealed),
  };
  const sessions = new SqliteUpstreamSessions(state, counting);
  const record = { identity: 'i', mcpSessionId: 'm', hello: '{}', revision: '2025-11-25', fingerprint: 'f' };
  sessions.put('s', 'short', record);
  sessions.delete('s', 'short');
  sessions.put('s', 'long', { ...record, mcpSessionId: 'older' });
  sessions.put('s', 'long', record);
  assert.equal(seals, 0);
  await clock.advance(100);
  assert.equal(seals, 1);
  const restarted = new SqliteUpstreamSessions(open('sealed-late.db').state, sealing);
  assert.deepEqual(restarted.get('s', 'long'), record);
  assert.equal(restarted.get('s', 'short'), null);
});

test('era verdicts and upstream sessions survive a restart; session ids are not readable on disk', () => {
  const first = open('remembered.db').state;
  new SqliteEraVerdicts(first).set('digest', { era: 'stateless', revision: '2026-07-28' });
  new SqliteKinds(first).set('memory', ['stateful f']);
  const record = {
    identity: 'digest',
    mcpSessionId: 'not-to-be-read',
    hello: '{}',
    revision: '2025-11-25',
    fingerprint: 'f',
  };
  new SqliteUpstreamSessions(first, sealing).put('memory', 'session 1', record);
  first.close();
  assert.ok(!readFileSync(join(folder, 'remembered.db')).includes('not-to-be-read'));
  const second = open('remembered.db').state;
  assert.deepEqual(new SqliteEraVerdicts(second).get('digest'), { era: 'stateless', revision: '2026-07-28' });
  assert.deepEqual(new SqliteKinds(second).get('memory'), ['stateful f']);
  const sessions = new SqliteUpstreamSessions(second, sealing);
  assert.deepEqual(sessions.get('memory', 'session 1'), record);
  sessions.delete('memory', 'session 1');
  assert.equal(sessions.get('memory', 'session 1'), null);
});

test('a session of an HTTP server survives the change of its sealing key after one read with both keys', () => {
  const record = { identity: 'd', mcpSessionId: 'one', hello: '{}', revision: '2025-11-25', fingerprint: 'f' };
  const read = (keys: readonly Buffer[]) => {
    const { state } = open('changed.db');
    const sessions = new SqliteUpstreamSessions(
      state,
      sealingOf(keys, (key) => new Sealer(key)),
    );
    const found = sessions.get('memory', 'session 1');
    if (found === null && keys[0] === OLD) sessions.put('memory', 'session 1', record);
    state.close();
    return found;
  };
  assert.equal(read([OLD]), null);
  for (const keys of [[OLD, NEW], [NEW, OLD], [NEW]]) assert.deepEqual(read(keys), record);
  assert.equal(read([Buffer.alloc(32, 9)]), null, 'another key reads no session and causes no error');
});

test('a stored catalogue is read back byte for byte, and an unreadable one is dropped', () => {
  const bytes = Buffer.from('{"tools":[{"name":"t","x":1.0,"y":12345678901234567890,"z":"\\u00e9\xff"}]}', 'latin1');
  const list = {
    items: [{ key: 't', bytes: bytes.subarray(10) }],
    pages: [bytes],
    ttlMs: 0,
    cacheScope: 'private' as const,
  };
  const none = { items: [], pages: [], ttlMs: 0, cacheScope: 'private' as const };
  const catalog: ServerCatalog = {
    server: 's',
    fingerprint: 'f',
    digest: 'd',
    handshake: {
      era: 'stateful',
      revision: '2025-11-25',
      result: bytes,
      serverInfo: null,
      capabilities: '{}',
      instructions: null,
    },
    lists: { tools: list, prompts: none, resources: none, resourceTemplates: none },
    listedAt: 5,
  };
  const first = open('catalogs.db').state;
  new SqliteKnownCatalogs(first).save('identity', catalog);
  const [stored] = first.all('catalog').values();
  assert.ok('hello' in deserialize(stored!).catalog, 'earlier versions read it');
  first.put('catalog', 'broken', Buffer.from('not v8'));
  first.close();
  const second = new SqliteKnownCatalogs(open('catalogs.db').state);
  const [loaded, ...rest] = [...second.load()];
  assert.equal(rest.length, 0);
  assert.equal(loaded?.identity, 'identity');
  assert.deepEqual(loaded?.lists.tools.pages[0], bytes);
  assert.deepEqual(loaded?.lists.tools.items[0]?.bytes, bytes.subarray(10));
  second.forget('s');
  assert.deepEqual([...second.load()], []);
});

test('a corrupt state file is set aside, not deleted, and a new one begins', () => {
  const path = join(folder, 'corrupt.db');
  writeFileSync(path, 'this is not a database, but it is long enough to have a header that SQLite reads'.repeat(50));
  const lines: string[] = [];
  const logger = new Logger({ level: 'warn', write: (line) => lines.push(line) });
  const state = new StateFile({ path, clock: new FakeClock(), logger });
  state.put('b', 'k', Buffer.from('v'));
  state.close();
  const kept = readdirSync(folder).find((name) => name.startsWith('corrupt.db.corrupt-'));
  assert.ok(kept !== undefined && readFileSync(join(folder, kept), 'utf8').startsWith('this is not a database'));
  assert.match(lines.join(''), /state_set_aside/);
});

test('the event log replays the events after an id, of its stream only, also after a restart', async () => {
  const first = open('events.db');
  const log = new SqliteEventLog(first.state, first.clock);
  const ids = ['one', 'two', 'three'].map((text) => log.append('s', 'a', Buffer.from(text)));
  log.append('s', 'b', Buffer.from('other stream'));
  log.append('t', 'b', Buffer.from('other session'));
  const replay = await log.after('s', ids[0]!);
  assert.deepEqual([replay?.stream, replay?.events.map((e) => e.message.toString())], ['a', ['two', 'three']]);
  assert.equal(await log.after('t', ids[0]!), null, 'an id of another session is unknown');
  for (const end of ['!', ' ', '.0'])
    assert.equal(await log.after('s', ids[0]! + end), null, 'an id in another form too');
  log.close();
  first.state.close();
  const second = open('events.db', first.clock);
  const reopened = new SqliteEventLog(second.state, second.clock);
  const again = await reopened.after('s', ids[1]!);
  assert.deepEqual(
    again?.events.map((e) => [e.eventId, e.message.toString()]),
    [[ids[2], 'three']],
  );
  assert.ok(!ids.includes(reopened.append('s', 'a', Buffer.from('four'))), 'ids are not used again');
});

test('the event log is bounded in bytes and time, and forgets a whole session', async () => {
  const { clock, state } = open('bounds.db');
  const log = new SqliteEventLog(state, clock);
  log.append('s', 'a', Buffer.alloc(600_000));
  const second = log.append('s', 'a', Buffer.alloc(600_000));
  assert.equal((await log.after('s', 'a~0'))?.events.length, 1, 'the first fell out by size');
  assert.deepEqual((await log.after('s', second))?.events, []);
  await clock.advance(7 * 60_000);
  assert.equal(await log.after('s', second), null, 'fell out by age');
  const third = log.append('s', 'a', Buffer.from('x'));
  log.forget('s');
  await clock.advance(100);
  assert.equal(await log.after('s', third), null);
  assert.equal((state.prepare('SELECT COUNT(*) AS n FROM events').get() as { n: number }).n, 0);
});

test('the event log is bounded over all sessions, oldest first, and counts what it holds', async () => {
  const { clock, state } = open('all-bounds.db');
  const log = new SqliteEventLog(state, clock, 1_000);
  const chunk = Buffer.alloc(100_000, 'x');
  const ids = ['s', 't', 'u', 's'].map((session) => log.append(session, `stream ${session}`, chunk.subarray(0, 300)));
  assert.equal((await log.after('s', 'stream s~0'))?.events.length, 1, 'the oldest fell out');
  assert.deepEqual((await log.after('t', ids[1]!))?.events, []);
  assert.deepEqual((await log.after('s', ids[3]!))?.events, [], 'its stream goes on');
  assert.equal(await log.after('u', log.append('u', 'stream u', Buffer.alloc(2_000))), null, 'too large for the log');
  for (const id of ids) assert.equal(await log.after('t', id), null);
  const last = log.append('t', 'stream t', chunk.subarray(0, 900));
  const next = log.append('t', 'stream t', chunk.subarray(0, 50));
  const [event] = (await log.after('t', last))!.events;
  assert.equal(event?.eventId, next);
  chunk.fill('y');
  log.append('t', 'stream t', chunk.subarray(0, 40));
  assert.equal(event?.message.toString(), 'x'.repeat(50), 'neither its chunk nor a later entry changes it');
  await clock.advance(200);
  assert.deepEqual(
    state
      .prepare('SELECT LENGTH(message) AS n FROM events ORDER BY seq')
      .all()
      .map((row) => row['n']),
    [900, 50, 40],
  );
});

test('entries of an earlier process are deleted when they are too old to be replayed', async () => {
  const clock = new FakeClock();
  const first = open('old-events.db', clock);
  new SqliteEventLog(first.state, clock).append('s', 'a', Buffer.from('x'));
  first.state.close();
  await clock.advance(6 * 60_000);
  const { state } = open('old-events.db', clock);
  new SqliteEventLog(state, clock);
  state.flush();
  assert.equal((state.prepare('SELECT COUNT(*) AS n FROM events').get() as { n: number }).n, 0);
});

test('only damaged values are lost', async () => {
  const first = open('damaged.db').state;
  new SqliteSessionRecords(first).put(session);
  for (const bucket of ['session', 'era', 'upstream-session']) {
    for (const [key, text] of [
      ['torn', '{"id":"to'],
      ['null', 'null'],
      ['number', '7'],
    ] as const) {
      first.put(bucket, key, Buffer.from(text));
    }
  }
  first.put('session', 'other', Buffer.from(JSON.stringify(session)));
  first.close();
  const { state } = open('damaged.db');
  const records = new SqliteSessionRecords(state);
  assert.equal(await records.get('torn'), null);
  assert.deepEqual(await records.all(), [session]);
  assert.equal(new SqliteEraVerdicts(state).get('torn'), null);
  assert.equal(new SqliteUpstreamSessions(state, sealing).get('null', ''), null);
  assert.deepEqual([...state.all('session').keys()], [session.id]);
  assert.equal(state.all('era').size, 0);
});

test('only their user can read the state file and the control token, whatever their mode was', () => {
  for (const name of ['private.db', 'control.token']) writeFileSync(join(folder, name), '', { mode: 0o644 });
  const { state } = open('private.db');
  state.put('b', 'k', Buffer.from('v'));
  state.flush();
  const data = new DataFolder(folder);
  const token = data.token('control.token', () => 'x'.repeat(64));
  assert.equal(
    data.token('control.token', () => 'other'),
    token,
  );
  for (const name of ['private.db', 'private.db-wal', 'control.token']) {
    assert.equal(statSync(join(folder, name)).mode & 0o077, 0, name);
  }
});

test('the remembered catalogues of a server are bounded; the newest stay', () => {
  const { state } = open('many-catalogs.db');
  const known = new SqliteKnownCatalogs(state);
  const none = { items: [], pages: [], ttlMs: 0, cacheScope: 'private' as const };
  const bytes = Buffer.from('{}');
  const handshake = { era: 'stateful', revision: '2025-11-25', result: bytes, serverInfo: null } as const;
  for (let i = 0; i < 200; i++) {
    known.save(`identity ${i}`, {
      server: 's',
      fingerprint: 'f',
      digest: 'd',
      handshake: { ...handshake, capabilities: '{}', instructions: null },
      lists: { tools: none, prompts: none, resources: none, resourceTemplates: none },
      listedAt: i,
    });
  }
  const left = [...known.load()].map(({ listedAt }) => listedAt).sort((a, b) => a - b);
  assert.deepEqual([left.length, left[0], left.at(-1)], [128, 72, 199]);
});

test('a backlog of 5,000 rows is written within 150 ms', async () => {
  const { clock, state } = open('fast.db');
  for (let i = 0; i < 5_000; i++) state.put('b', `k${i}`, Buffer.from(`${i}`));
  await clock.advance(100 + 10 * 5);
  assert.equal(open('fast.db').state.all('b').size, 5_000);
});

test('the lock allows one gateway per data folder, and kill -9 releases it, too', async (context) => {
  const path = join(folder, 'data');
  const module = pathToFileURL(join(import.meta.dirname, 'data-folder.ts')).href;
  const child = spawn(process.execPath, [
    '--input-type=module',
    '-e',
    `const { DataFolder } = await import(${JSON.stringify(module)});
     const folder = new DataFolder(${JSON.stringify(path)});
     console.log(folder.acquire());
     folder.publish({ pid: process.pid, version: 'v', mcpUrl: 'u', controlUrl: 'c', files: [], startedAt: 1 });
     console.log('up');
     // Refers to the folder: the lock is let go of when nothing does any more.
     setInterval(() => folder.path, 1000);`,
  ]);
  context.after(() => child.kill('SIGKILL'));
  let out = '';
  for await (const chunk of child.stdout) {
    out += chunk;
    if (out.includes('up')) break;
  }
  assert.match(out, /^true/);
  const mine = new DataFolder(path);
  assert.equal(mine.acquire(), false);
  assert.equal(mine.instance()?.pid, child.pid);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await exited;
  assert.equal(mine.instance(), null, 'the process of the instance is dead');
  const left = JSON.parse(readFileSync(mine.file('instance.json'), 'utf8'));
  writeFileSync(mine.file('instance.json'), JSON.stringify({ ...left, pid: process.pid }));
  assert.equal(mine.instance(), null, 'the instance is dead, even if another process has its id');
  assert.equal(mine.acquire(), true);
  const token = mine.token('control.token', () => 'x'.repeat(40));
  assert.equal(
    mine.token('control.token', () => 'y'.repeat(40)),
    token,
  );
  assert.equal(statSync(mine.file('control.token')).mode & 0o077, 0);
  mine.release();
});
