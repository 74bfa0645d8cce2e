import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { call, DownstreamRig, type RigOptions } from '../../../test/support/downstream-rig.ts';
import { systemClock } from '../../model/clock.ts';
import type { Server } from '../../model/server.ts';
import { SqliteSessionRecords } from '../../store/remembered.ts';
import { StateFile } from '../../store/state-file.ts';
import { Logger } from '../../telemetry/logger.ts';

/** A gateway and its successor over one state: the first is closed when the second is started. */
async function successor(t: TestContext, first: DownstreamRig, state: StateFile, options: RigOptions = {}) {
  await first.close();
  const second = await DownstreamRig.start({ ...options, state });
  t.after(() => second.close());
  return second;
}

function store(t: TestContext): StateFile {
  const state = new StateFile({ path: ':memory:', clock: systemClock, logger: Logger.silent() });
  t.after(() => state.close());
  return state;
}

for (const cap of ['max', 'maxPerPrincipal'] as const) {
  test(`sessions from before a restart count: ${cap} limits returning ones, too`, async (t) => {
    const state = store(t);
    const first = await DownstreamRig.start({ state });
    const sessions = [await first.session(), await first.session(), await first.session()];
    const second = await successor(t, first, state, { sessions: { [cap]: 2 } });
    const replies = [];
    for (const headers of sessions) replies.push(await second.post(call(1, 'ping'), headers));
    assert.deepEqual(
      replies.map(({ status }) => status),
      [200, 200, 429],
    );
    assert.ok(Number(replies[2]!.headers['retry-after']) >= 1);
    assert.equal(JSON.parse(replies[2]!.text).error.data.outcome, 'REFUSED');
    assert.equal(second.downstream.sessions.size, 2);
    // The refused session is not lost: it is restored when there is room.
    assert.equal((await second.stream(call(1, 'ping'), sessions[0])).status, 200);
    second.desired = { ...second.desired, sessions: { ...second.desired.sessions, [cap]: 3 } };
    assert.equal((await second.post(call(1, 'ping'), sessions[2])).status, 200);
  });
}

test('streams resumed after a restart count: a fifth ends the oldest', async (t) => {
  const state = store(t);
  const first = await DownstreamRig.start({ state });
  const headers = await first.session();
  const ids: string[] = [];
  for (let i = 0; i < 6; i++) ids.push((await (await first.listen(headers)).next())!.id!);
  assert.equal(new Set(ids.map((id) => id.slice(0, id.indexOf('~')))).size, 6);
  const second = await successor(t, first, state);
  const streams = [];
  for (const id of ids) streams.push(await second.listen({ ...headers, 'last-event-id': id }));
  // Until its end.
  for (const oldest of streams.slice(0, 2)) await oldest.rest();
  assert.equal(second.listener.wheel.open, 4);
});

test('no table on disk has a session id, and the identifiers there open no session', async (t) => {
  const state = store(t);
  const first = await DownstreamRig.start({ state });
  const headers = await first.session();
  const id = headers['mcp-session-id']!;
  await (await first.listen(headers)).next();
  state.flush();
  const rows = ['records', 'events'].flatMap((table) => state.prepare(`SELECT * FROM ${table}`).all());
  assert.ok(rows.length >= 2);
  const text = rows
    .flatMap((row) => Object.values(row))
    .map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : String(value)))
    .join('\n');
  assert.ok(!text.includes(id));
  const second = await successor(t, first, state);
  const stored = [...text.matchAll(/\b[0-9a-f]{32}\b/g)].map(([found]) => found);
  assert.ok(stored.length > 0);
  for (const found of new Set(stored)) {
    assert.equal((await second.post(call(1, 'ping'), { ...headers, 'mcp-session-id': found })).status, 404);
  }
  assert.equal((await second.post(call(1, 'ping'), headers)).status, 200);
});

/** Reads sessions as slowly as the test wants. */
class SlowRecords extends SqliteSessionRecords {
  readonly read = Promise.withResolvers<void>();

  override async get(id: string) {
    await this.read.promise;
    return super.get(id);
  }
}

test('goal:G18 requests that wait for their session keep the values of their own headers', async (t) => {
  const state = store(t);
  const first = await DownstreamRig.start({ state });
  const headers = await first.session();
  const records = new SlowRecords(state);
  const second = await successor(t, first, state, { records });
  const [[name, memory]] = [...second.desired.servers] as [[string, Server]];
  const apart = { credentials: false, headers: { 'x-team': 'X-Tenant' } };
  second.desired = { ...second.desired, servers: new Map([[name, { ...memory, callerSeparation: apart }]]) };
  const { sessions } = second.downstream;
  const load = sessions.load.bind(sessions);
  let waiting = 0;
  sessions.load = (...of) => {
    if (++waiting === 2) setImmediate(records.read.resolve);
    return load(...of);
  };
  const posts = ['red', 'blue'].map((team) => second.post(call(team, 'tools/list'), { ...headers, 'x-team': team }));
  await Promise.all(posts);
  const sent = second.core.ran.map(({ request, client }) => [request.id, client.forwarded?.['x-team']]);
  assert.deepEqual(sent.sort(), [
    ['"blue"', 'blue'],
    ['"red"', 'red'],
  ]);
});

test('a stream that comes first after a restart gives its session the forwarded headers', async (t) => {
  const state = store(t);
  const first = await DownstreamRig.start({ state });
  const headers = await first.session();
  await first.post(call(1, 'tools/list'), headers);
  const { sessionId } = first.core.ran.at(-1)!.client;
  const second = await successor(t, first, state);
  const [[name, memory]] = [...second.desired.servers] as [[string, Server]];
  const apart = { credentials: false, headers: { 'x-team': 'X-Tenant' } };
  second.desired = { ...second.desired, servers: new Map([[name, { ...memory, callerSeparation: apart }]]) };
  await second.listen({ ...headers, 'x-team': 'red' });
  const { client } = second.downstream.sessions.get(sessionId!)!;
  assert.equal(client.forwarded?.['x-team'], 'red');
});
