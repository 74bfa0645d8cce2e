import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, type TestContext, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const FILE = { mcpServers: { base: manySided('base') }, pool: { sweepMs: 60_000 } };

async function until<T>(what: string, look: () => Promise<T | null | false>): Promise<T> {
  const end = performance.now() + 60_000;
  for (;;) {
    const found = await look();
    if (found !== null && found !== false) return found;
    if (performance.now() > end) throw new Error(`${what}: did not happen`);
    await new Promise((done) => setTimeout(done, 25));
  }
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Names in the store, as another process sees them. */
function storedServers(gateway: RunningGateway): readonly unknown[] {
  const file = join(gateway.folder, 'data', 'truth.db');
  if (!existsSync(file)) return [];
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return db.prepare("SELECT key FROM records WHERE collection = 'server'").all();
  } finally {
    db.close();
  }
}

/** The keys in `state.db` of a gateway that has ended. */
function stateKeys(gateway: RunningGateway): readonly string[] {
  const db = new DatabaseSync(join(gateway.folder, 'data', 'state.db'));
  try {
    return (db.prepare('SELECT key FROM records').all() as { key: string }[]).map(({ key }) => key);
  } finally {
    db.close();
  }
}

async function started(t: TestContext, config: object = FILE): Promise<RunningGateway> {
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  return gateway;
}

/** Ends the gateway as a power cut would, and starts another on its folder. */
async function killed(t: TestContext, gateway: RunningGateway, config: object = FILE): Promise<RunningGateway> {
  await gateway.stop('SIGKILL');
  const next = await RunningGateway.start({ config, folder: gateway.folder });
  t.after(() => next.stop());
  return next;
}

describe('servers added at run time', () => {
  let gateway: RunningGateway;
  let client: RunTimeClient;
  before(async () => {
    gateway = await RunningGateway.start({ config: FILE });
    await gateway.ready();
    client = new RunTimeClient(gateway);
  });
  after(() => gateway.dispose());

  test('check:A2 check:A4 a server is added, serves, is changed, and is removed with its process; the others keep theirs', async () => {
    const base = (await client.server('base')).connections[0].pid;
    const added = await client.add('extra', manySided('extra', {}, { description: 'first' }));
    assert.equal(added.status, 201, added.text);
    assert.deepEqual(
      [added.json.name, added.json.desired.source, added.json.desired.suspended, added.json.desired.session],
      ['extra', 'store', false, null],
    );
    await gateway.ready('extra');
    const user = await WireClient.open(gateway.mcpUrl);
    assert.equal(await user.callText('extra__echo', { text: 'hello' }), 'hello');
    const first = (await client.server('extra')).connections.map(({ pid }: Json) => pid);

    // S3.12: a description needs no new connection, the environment does.
    const described = await client.change('extra', manySided('extra', {}, { description: 'second' }));
    assert.equal(described.status, 200, described.text);
    assert.equal(described.json.description, 'second');
    assert.deepEqual(
      (await client.server('extra')).connections.map(({ pid }: Json) => pid),
      first,
    );
    const changed = await client.change('extra', manySided('extra', { MORE: 'x' }));
    assert.equal(changed.status, 200, changed.text);
    assert.ok(changed.json.desired.revision > described.json.desired.revision);
    await until('its old processes end', async () => first.every((pid: number) => !alive(pid)));
    assert.equal(await user.callText('extra__echo', { text: 'again' }), 'again');

    const last = (await client.server('extra')).connections.map(({ pid }: Json) => pid);
    assert.equal((await client.remove('extra')).status, 200);
    assert.equal((await client.ask('GET', '/api/v1/servers/extra')).status, 404);
    await until('its processes end', async () => last.every((pid: number) => !alive(pid)));
    assert.equal((await client.server('base')).connections[0].pid, base);
    assert.equal((await client.remove('extra')).status, 404);
  });

  test('a wrong definition is answered like a file’s problems, with position and fix', async () => {
    const text = '{\n  "name": "bad",\n  "comand": "x",\n  "timeoutMs": -1\n}';
    const reply = await client.ask('POST', '/api/v1/servers', text);
    assert.equal(reply.status, 422);
    const { code, problems } = reply.json.error;
    assert.equal(code, 'definition_invalid');
    assert.deepEqual(
      problems.map(({ code: of, line, column }: Json) => [of, line, column]),
      [
        ['TL1301', 3, 3],
        ['TL1303', 4, 16],
      ],
    );
    assert.ok(problems.every(({ fix, frame }: Json) => fix !== '' && frame.includes('^')));
    assert.ok(!(await client.names()).includes('bad'));
  });

  test('a name that a file or the store has, or that clients would confuse with one, is refused', async () => {
    await client.add('one_two', manySided('x', {}, { start: 'lazy' }));
    for (const name of ['base', 'Base', 'one_two', 'one-two', 'ONE_TWO']) {
      const reply = await client.add(name, manySided('x'));
      assert.deepEqual([reply.status, reply.json.error.code], [409, 'name_taken'], name);
    }
    await client.remove('one_two');
  });

  test('a server of a file is changed in the file: the answer names its position', async () => {
    for (const reply of [await client.change('base', manySided('x')), await client.remove('base')]) {
      assert.deepEqual([reply.status, reply.json.error.code], [409, 'not_added_here']);
      assert.ok(reply.json.error.message.includes(`${join(gateway.folder, 'trunkline.json')}:1`), reply.text);
    }
  });

  test('one of twenty concurrent additions of a name succeeds, and one of two changes to a revision', async () => {
    const all = await Promise.all(
      Array.from({ length: 20 }, () => client.add('race', manySided('r', {}, { start: 'lazy' }))),
    );
    assert.deepEqual(all.map(({ status }) => status).sort(), [201, ...Array(19).fill(409)]);
    const { revision } = (await client.server('race')).desired;
    const both = await Promise.all(
      ['a', 'b'].map((D) => client.change('race', manySided('r', { D }, { start: 'lazy' }), `?revision=${revision}`)),
    );
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
    assert.equal((await client.remove('race', `?revision=${revision}`)).status, 409);
    assert.equal((await client.remove('race')).status, 200);
  });

  test('check:J6 a suspended server ends, its tools go and its calls are refused; a resumed one serves again', async () => {
    await client.add('nap', manySided('nap'));
    await gateway.ready('nap');
    const user = await WireClient.open(gateway.mcpUrl);
    const pids = (await client.server('nap')).connections.map(({ pid }: Json) => pid);
    const reply = await client.suspend('nap');
    assert.deepEqual([reply.status, reply.json.desired.suspended], [200, true]);
    await until('it is suspended', async () => (await client.server('nap')).state === 'suspended');
    await until('its process ends', async () => pids.every((pid: number) => !alive(pid)));
    assert.equal((await client.suspend('nap')).status, 200);
    const restarted = await client.ask('POST', '/api/v1/servers/nap/restart');
    assert.deepEqual([restarted.status, restarted.json.error.code], [409, 'server_disabled']);
    const { message } = await user.request('tools/call', { name: 'nap__echo', arguments: { text: 'x' } });
    assert.ok(message.error !== undefined || message.result.isError === true, JSON.stringify(message));
    assert.ok((await user.toolNames()).every((name) => !name.startsWith('nap__')));
    assert.equal((await client.resume('nap')).json.desired.suspended, false);
    await gateway.ready('nap');
    assert.equal(await user.callText('nap__echo', { text: 'back' }), 'back');
    await client.remove('nap');
  });

  test('only the user can read the store and the tokens', async () => {
    await client.add('kept', manySided('k', {}, { start: 'lazy' }));
    for (const file of ['truth.db', 'exec.token', 'control.token']) {
      assert.equal(statSync(join(gateway.folder, 'data', file)).mode & 0o777, 0o600, file);
    }
    await client.remove('kept');
  });
});

test('fault:F36 check:A8 an acknowledged change is in force after a kill -9: added, changed, removed, suspended', async (t) => {
  const first = await started(t);
  const before = new RunTimeClient(first);
  const lazy = { start: 'lazy' };
  for (const name of ['stays', 'changes', 'goes', 'sleeps']) {
    assert.equal((await before.add(name, manySided(name, {}, lazy))).status, 201);
  }
  await before.change('changes', manySided('changes', {}, { ...lazy, description: 'changed' }));
  await before.remove('goes');
  await before.suspend('sleeps');
  await before.suspend('base');
  const second = await killed(t, first);
  const now = new RunTimeClient(second);
  assert.deepEqual(await now.names(), ['base', 'changes', 'sleeps', 'stays']);
  assert.equal((await now.server('changes')).description, 'changed');
  assert.equal((await now.server('sleeps')).state, 'suspended');
  const base = await now.server('base');
  assert.deepEqual([base.state, base.desired.source, base.desired.suspended], ['suspended', 'file', true]);
  await now.resume('base');
  await second.ready('base');
  const user = await WireClient.open(second.mcpUrl);
  assert.equal(await user.callText('stays__echo', { text: 'x' }), 'x');
});

test('check:A14 a temporary server ends with its time, its session and the gateway, and is never stored', async (t) => {
  const gateway = await started(t);
  await gateway.ready();
  const client = new RunTimeClient(gateway);
  const owner = await WireClient.open(gateway.mcpUrl);
  const label = await until('its session is known', async () => {
    const { sessions } = await gateway.control<{ sessions: Json[] }>('/api/v1/sessions');
    return sessions[0]?.label ?? null;
  });
  const bound = await client.add('bound', manySided('bound'), `?session=${label}`);
  assert.equal(bound.status, 201, bound.text);
  assert.deepEqual([bound.json.desired.source, bound.json.desired.session], ['temporary', label]);
  const brief = await client.add('brief', manySided('brief'), '?ttlMs=3600000');
  assert.ok(Date.parse(brief.json.desired.expiresAt) > Date.now());
  const short = await client.add('short', manySided('short'), '?ttlMs=1000');
  assert.equal(short.status, 201);
  await gateway.ready('bound', 'brief');
  await until('its time is over', async () => !(await client.names()).includes('short'));
  const pid = (await client.server('bound')).connections[0].pid;
  assert.equal(await owner.callText('bound__echo', { text: 'mine' }), 'mine');
  // No other client sees it, in either era.
  for (const era of ['stateful', 'stateless'] as const) {
    const other = new WireClient(gateway.mcpUrl, era);
    if (era === 'stateful') await other.initialize();
    const names = await other.toolNames();
    assert.ok(names.includes('brief__echo') && !names.some((name) => name.startsWith('bound__')), era);
    const { message } = await other.request('tools/call', { name: 'bound__echo', arguments: { text: 'x' } });
    assert.ok(message.error !== undefined || message.result.isError === true, JSON.stringify(message));
  }
  assert.ok((await owner.toolNames()).includes('bound__echo'));
  const direct = new WireClient(gateway.serverUrl('bound'), 'stateless');
  assert.equal((await direct.request('tools/list')).status, 404);
  await client.ask('DELETE', `/api/v1/sessions/${label}`);
  await until('it ends with its session', async () => !(await client.names()).includes('bound'));
  await until('its process ends', async () => !alive(pid));
  assert.equal((await client.add('late', manySided('l'), `?session=${label}`)).status, 404);
  for (const query of ['?ttlMs=999', '?ttlMs=604800001', '?ttlMs=-1', '?ttlMs=', '?ttlMs=1e4', '?ttlMs=1000.5']) {
    assert.equal((await client.add('late', manySided('l'), query)).status, 400, query);
  }
  const left = (await client.server('brief')).connections[0].pid;
  assert.deepEqual(storedServers(gateway), []);
  await gateway.stop('SIGKILL');
  assert.ok(
    stateKeys(gateway).some((key) => key.startsWith('base\n')),
    'keys of another server are kept',
  );
  assert.ok(stateKeys(gateway).every((key) => !/^(?:brief|bound|short)\n/.test(key)));
  const next = await killed(t, gateway);
  assert.deepEqual(await new RunTimeClient(next).names(), ['base']);
  await until('what was left of it ends', async () => !alive(left));
});

test('a file’s server wins over a stored one of its name, which is reported and returns when the file allows it', async (t) => {
  const gateway = await started(t);
  const client = new RunTimeClient(gateway);
  await client.add('twin', manySided('stored', {}, { start: 'lazy', description: 'stored' }));
  const twin = (description: string) => ({
    mcpServers: { ...FILE.mcpServers, twin: manySided('file', {}, { start: 'lazy', description }) },
  });
  gateway.rewrite(twin('file'));
  await until('the file is in force', async () => (await client.server('twin')).description === 'file');
  assert.equal((await client.server('twin')).desired.source, 'file');
  const { desiredProblems } = await gateway.control<Json>('/api/v1/gateway');
  assert.ok(
    desiredProblems.some((reported: string) => reported.includes('twin') && reported.includes('file')),
    desiredProblems,
  );
  assert.match(gateway.stderr, /server_shadowed/);
  gateway.rewrite(FILE);
  await until('the stored one is back', async () => (await client.server('twin')).description === 'stored');
  assert.deepEqual((await gateway.control<Json>('/api/v1/gateway')).desiredProblems, []);
});
