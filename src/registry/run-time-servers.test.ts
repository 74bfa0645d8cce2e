import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { loadConfig } from '../config/load-config.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { type RunTimeStore, StoreError, type StoreSnapshot } from '../store/run-time-store/run-time-store.ts';
import { SqliteRunTimeStore } from '../store/run-time-store/sqlite-run-time-store.ts';
import { Logger } from '../telemetry/logger.ts';
import type { PeerServers } from './merged-desire.ts';
import { Registry } from './registry.ts';
import { RunTimeServers } from './run-time-servers.ts';
import { StoredServers } from './stored-definitions.ts';

const EXEC = { exec: true };
const PLAIN = { exec: false };

async function filesOf(...names: readonly string[]): Promise<DesiredState> {
  const servers = Object.fromEntries(names.map((name) => [name, { command: name }]));
  const text = JSON.stringify({ mcpServers: { none: { command: 'x', disabled: true }, ...servers } });
  const result = await loadConfig({ cwd: '/', env: {}, inline: [{ label: '<test>', text }] });
  assert.ok(result.ok);
  return result.state;
}

class CountingRegistry extends Registry {
  refreshes = 0;

  override refresh(): boolean {
    this.refreshes++;
    return super.refresh();
  }
}

/** Run-time servers over a store in memory, which can be made to fail, and the files `base` and `none`. */
async function rig(
  env: Record<string, string> = {},
  others: PeerServers | null = null,
  look: (file: string) => Promise<void> = async () => {},
) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const logger = new Logger({ level: 'info', write: (line) => lines.push(line) });
  const runTimeStore = new SqliteRunTimeStore({ path: ':memory:', clock, logger });
  let failing: StoreError | null = null;
  let answer: StoreSnapshot | null = null;
  const store: RunTimeStore = {
    read: async (collections) => {
      if (failing !== null) throw failing;
      return answer ?? runTimeStore.read(collections);
    },
    list: (collection, options) => runTimeStore.list(collection, options),
    apply: async (writes) => {
      if (failing !== null) throw failing;
      return runTimeStore.apply(writes);
    },
    close: () => runTimeStore.close(),
  };
  const registry = new CountingRegistry(await filesOf('base'));
  const make = (desired: Registry) =>
    new RunTimeServers({
      stored: new StoredServers(store),
      clock,
      logger,
      env,
      folder: '/srv',
      desired,
      others,
      look,
    });
  const servers = make(registry);
  await servers.refresh();
  registry.begin();
  return {
    clock,
    lines,
    servers,
    make,
    runTimeStore,
    fail: (error: StoreError | null) => {
      failing = error;
    },
    answer: (snapshot: StoreSnapshot | null) => {
      answer = snapshot;
    },
    async files(...names: readonly string[]) {
      registry.replace(await filesOf(...names));
    },
    plan: async (...names: readonly string[]) => registry.plan(await filesOf(...names)),
    names: () => [...registry.state.servers.keys()].sort(),
    server: (name: string) => registry.state.servers.get(name),
    changes: () => registry.refreshes,
  };
}

const text = (name: string, definition: object) => ({
  text: JSON.stringify({ name, ...definition }),
  name: null,
  folder: null,
});
const url = { url: 'https://mcp.example.com/mcp' };

test('check:A8 a store that cannot be read, or has less than before, changes nothing', async () => {
  const { servers, names, fail, answer } = await rig();
  await servers.add(text('one', url), PLAIN);
  await servers.suspend('base');
  fail(new StoreError('unavailable', 'no such disk'));
  await assert.rejects(servers.refresh(), { fault: 'unavailable' });
  fail(null);
  const empty = new Map([
    ['server', new Map()],
    ['suspended', new Map()],
  ]);
  for (const revision of [0, 1]) {
    answer({ revision, records: empty });
    await assert.rejects(servers.refresh(), { fault: 'damaged' });
  }
  assert.deepEqual(names(), ['base', 'none', 'one']);
  assert.equal(servers.provenance('base')?.suspended, true);
  answer(null);
  assert.equal(await servers.refresh(), false);
  // An empty store of a later revision is valid: an operator has removed the servers.
  answer({ revision: 99, records: empty });
  assert.equal(await servers.refresh(), true);
});

test('fault:F35 a stored server that this version cannot read is held back with the reason; the others run, and it can be removed', async () => {
  const { servers, names, runTimeStore } = await rig();
  await servers.add(text('one', url), PLAIN);
  const put = (key: string, value: string) => runTimeStore.apply([{ kind: 'put', collection: 'server', key, value }]);
  await put('newer', '{"format":2,"definition":{"url":"http://127.0.0.1:1/"}}');
  await put('list', '[]');
  await put('text', 'no JSON');
  await put('invalid', JSON.stringify({ text: '{"command":5}', folder: '/', addedAt: 1, changedAt: 1 }));
  await servers.refresh();
  assert.deepEqual(names(), ['base', 'none', 'one']);
  const held = servers.problems.map((problem) => /^the stored server (\w+) cannot be read: /.exec(problem)?.[1]);
  assert.deepEqual(new Set(held), new Set(['newer', 'list', 'text', 'invalid']));
  await servers.remove('newer');
  assert.ok(!servers.problems.some((problem) => problem.includes('newer')));
});

test('fault:F34 a change that the store refuses has no effect', async () => {
  const { servers, names, server, fail, changes } = await rig();
  await servers.add(text('one', url), PLAIN);
  const before = changes();
  fail(new StoreError('full', 'the disk is full'));
  const refused = [
    servers.add(text('two', url), PLAIN),
    servers.change('one', { ...text('one', { ...url, description: 'x' }) }, PLAIN),
    servers.remove('one'),
    servers.suspend('one'),
  ];
  for (const change of refused) await assert.rejects(change, { code: 'store_full' });
  assert.deepEqual([names(), server('one')?.description, changes()], [['base', 'none', 'one'], null, before]);
  assert.equal(servers.provenance('one')?.suspended, false);
  fail(null);
  await servers.add(text('two', url), PLAIN);
  assert.deepEqual(names(), ['base', 'none', 'one', 'two']);
});

test('a stored definition that becomes unreadable stays in force and is reported; at a start it is misconfigured, and keeps its name', async () => {
  const env: Record<string, string> = { TOKEN: 'first-value' };
  const { servers, server, make } = await rig(env);
  await servers.add(text('one', { ...url, headers: { 'x-a': '${TOKEN}' } }), EXEC);
  const digest = server('one')!.connectionDigest;
  delete env['TOKEN'];
  await servers.refresh();
  assert.equal(server('one')!.connectionDigest, digest);
  assert.match(servers.problems.join(), /the stored server one cannot be read: TL1203/);

  const registry = new Registry(await filesOf('base'));
  const next = make(registry);
  await next.refresh();
  registry.begin();
  assert.match(registry.state.servers.get('one')?.misconfigured ?? '', /environment variable TOKEN is not set/);
  assert.match(next.problems.join(), /TL1203/);
  await assert.rejects(next.add(text('one', url), PLAIN), { code: 'name_taken' });
  env['TOKEN'] = 'second-value';
  assert.equal(await next.refresh(), true);
  assert.deepEqual(next.problems, []);
});

test('check:A8 when a file does not respond, only the server that names it stays as it was', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tl-run-time-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const names = ['dead', 'good'];
  const fileOf = (name: string) => join(folder, name, 'token');
  const write = (token: string) => {
    for (const file of names.map(fileOf)) {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, token);
    }
  };
  let answer = Promise.resolve();
  const look = (file: string) => (file === fileOf('dead') ? answer : Promise.resolve());
  const { servers, server, files, make, clock } = await rig({}, null, look);
  const read = async (some: RunTimeServers) => {
    const reading = some.refresh();
    for (let second = 0; second < 10; second++) await clock.advance(1_000);
    await reading;
    await files('base');
  };
  const digests = () => names.map((name) => server(name)!.connectionDigest);
  write('first');
  for (const name of names) {
    await servers.add(text(name, { ...url, headers: { 'x-a': `\${file:${fileOf(name)}}` } }), EXEC);
  }
  const [dead, good] = digests();
  const { promise, resolve } = Promise.withResolvers<void>();
  answer = promise;
  write('second');
  await read(servers);
  assert.equal(digests()[0], dead);
  assert.notEqual(digests()[1], good);
  assert.match(servers.problems.join(), /server dead cannot be read: TL1205 .*its file system does not respond/);

  const registry = new Registry(await filesOf('base'));
  await read(make(registry));
  registry.begin();
  const reasons = names.map((name) => registry.state.servers.get(name)?.misconfigured);
  assert.match(reasons[0] ?? '', /its file system does not respond/);
  assert.equal(reasons[1], undefined);
  resolve();
  await clock.advance(0);
  await read(servers);
  assert.notEqual(digests()[0], dead);
  assert.deepEqual(servers.problems, []);
});

test('a file’s server wins over a stored one with a similar name, as long as it is in the file', async () => {
  const { servers, names, files, lines, server } = await rig();
  await servers.add(text('my_server', { ...url, timeoutMs: 900_000 }), PLAIN);
  await files('base', 'My-Server');
  assert.deepEqual(names(), ['My-Server', 'base', 'none']);
  assert.match(servers.problems.join(), /my_server does not run: clients would confuse it with My-Server/);
  assert.equal(lines.filter((line) => line.includes('server_shadowed')).length, 1);
  await files('base');
  assert.deepEqual([names(), servers.problems], [['base', 'my_server', 'none'], []]);
  assert.equal(server('my_server')?.timeoutMs, 900_000);
});

test('a suspension holds for the name, also of a file’s server; only the file enables a server that it disables', async () => {
  const { servers, server, files } = await rig();
  await servers.suspend('base');
  assert.equal(server('base')?.enabled, false);
  await files('other');
  await files('base');
  assert.equal(server('base')?.enabled, false);
  await servers.resume('base');
  assert.equal(server('base')?.enabled, true);
  await assert.rejects(servers.resume('none'), { code: 'disabled_by_definition', message: /<test>:1/ });
  await assert.rejects(servers.suspend('nobody'), { code: 'no_such_server' });
});

test('check:A14 a temporary server has its time and session, and keeps both when it changes', async () => {
  const { servers, names, clock, lines } = await rig();
  const until = { expiresAt: clock.wall() + 5_000, sessionId: null };
  await servers.add(text('brief', url), PLAIN, until);
  await servers.add(text('bound', url), PLAIN, { expiresAt: null, sessionId: 'session-1' });
  await servers.add(text('both', url), PLAIN, { expiresAt: clock.wall() + 60_000, sessionId: 'session-1' });
  await clock.advance(4_000);
  await servers.change('brief', text('brief', { ...url, description: 'changed' }), PLAIN);
  await servers.suspend('brief');
  await clock.advance(999);
  assert.deepEqual(names(), ['base', 'both', 'bound', 'brief', 'none']);
  await clock.advance(1);
  assert.deepEqual(names(), ['base', 'both', 'bound', 'none']);
  servers.sessionEnded('session-2');
  assert.equal(names().length, 4);
  servers.sessionEnded('session-1');
  assert.deepEqual(names(), ['base', 'none']);
  assert.equal(lines.filter((line) => line.includes('temporary_server_ended')).length, 3);
  assert.equal(clock.pending, 0, 'no timer is left');
});

test('a change that expects a revision does not change a temporary server, which took the place of the stored one', async () => {
  const { servers, names, clock } = await rig();
  await servers.add(text('x', url), PLAIN, { expiresAt: clock.wall() + 5_000, sessionId: null });
  const refused = { code: 'revision_changed', message: /it is a temporary server now/ };
  await assert.rejects(servers.remove('x', 1), refused);
  await assert.rejects(servers.change('x', text('x', url), PLAIN, 1), refused);
  assert.ok(names().includes('x'));
  await servers.remove('x');
  assert.ok(!names().includes('x'));
});

test('check:A14 a server for a session that ends while it is being added is not added', async () => {
  const { servers, names } = await rig();
  const lifetime = { expiresAt: null, sessionId: 'session-1' };
  const adding = servers.add(text('bound', url), PLAIN, lifetime);
  servers.sessionEnded('session-1');
  await assert.rejects(adding, { code: 'no_such_session' });
  assert.deepEqual(names(), ['base', 'none']);
  await servers.add(text('bound', url), PLAIN, lifetime);
  assert.deepEqual(names(), ['base', 'bound', 'none']);
});

test('a decision about a file’s server does not depend on a stored one that it hides', async () => {
  const { servers, server, files, clock } = await rig();
  await servers.suspend('base');
  await files('other');
  await servers.add(text('base', url), PLAIN, { expiresAt: clock.wall() + 5_000, sessionId: null });
  assert.equal(server('base')?.enabled, true, 'the temporary server is not suspended');
  await files('base');
  assert.equal(server('base')?.enabled, false, 'the server of the file is suspended');
  await servers.resume('base');
  await servers.suspend('base');
  await clock.advance(5_000);
  assert.equal(server('base')?.enabled, false, 'the suspension outlasts the temporary server');

  await files('other');
  await servers.add(text('hidden', url), PLAIN);
  const revision = servers.provenance('hidden')?.revision ?? null;
  await files('hidden');
  assert.ok(revision !== null, 'it is stored');
  assert.deepEqual([servers.provenance('hidden')?.source, servers.provenance('hidden')?.revision], ['file', revision]);
  await servers.suspend('hidden');
  await servers.remove('hidden');
  assert.equal(server('hidden')?.enabled, false);
  await servers.refresh();
  assert.equal(server('hidden')?.enabled, false);
});

test('a plan changes neither the servers in force nor what is reported about them', async () => {
  const { servers, server, files, plan, lines } = await rig();
  await files('other');
  for (const name of ['base', 'plain']) await servers.add(text(name, url), PLAIN);
  await files('base');
  await servers.suspend('base');
  const shown = () => [servers.provenance('base')?.source, servers.problems, lines.length];
  const before = shown();
  const { state } = await plan('plain');
  const types = ['base', 'plain'].map((name) => state.servers.get(name)?.transport.type);
  assert.deepEqual(types, ['http', 'stdio']);
  assert.deepEqual(shown(), before);
  await servers.remove('base');
  assert.equal(server('base')?.enabled, false, 'the suspension of the file’s server stays');
});

test('without the right to read files and variables a refusal does not reveal their contents or existence', async () => {
  const { servers } = await rig({ SET: 'x' });
  const definitions = [
    { ...url, headers: { 'x-a': '${SET}' } },
    { ...url, headers: { 'x-a': '${NOT_SET}' } },
    { ...url, headers: { 'x-a': '${file:/nowhere/at/all}' } },
    { command: 'x', envFile: import.meta.filename },
    { transport: { ...url, bearer_token_env_var: 'SET' } },
    {
      ...url,
      auth: {
        grant: 'token_exchange',
        clientId: 'x',
        issuer: 'https://idp.example',
        subjectTokenFile: '/etc/hostname',
      },
    },
  ];
  for (const definition of definitions) {
    await assert.rejects(servers.add(text('one', definition), PLAIN), { code: 'exec_required', problems: [] });
  }
  await assert.rejects(servers.add(text('one', definitions[1]!), EXEC), { code: 'definition_invalid' });
});

test('a server added here does not replace another node’s server of that name', async () => {
  let meaning = ['b', 'c'];
  const { servers, names, clock } = await rig({}, { server: () => null, against: () => meaning });
  const refused = assert.rejects(servers.add(text('one', url), PLAIN), {
    code: 'name_taken',
    message: /^one, or a name .* is another server at b and c: take another name, or change it there$/,
  });
  for (let i = 0; i < 40; i++) await clock.advance(100);
  await refused;
  assert.deepEqual(names(), ['base', 'none']);
  // A server removed a moment ago is offered by other nodes until they have followed.
  const added = servers.add(text('one', url), PLAIN);
  await clock.advance(100);
  meaning = [];
  await clock.advance(100);
  await added;
  assert.deepEqual(names(), ['base', 'none', 'one']);
});

test('a server of another node can be suspended through the shared store, and changed only at that node', async () => {
  const there = async (more: object): Promise<PeerServers> => {
    const server = { ...(await filesOf('theirs')).servers.get('theirs')!, ...more };
    return { server: (name) => (name === 'theirs' ? { server, nodes: ['b'] } : null), against: () => [] };
  };
  const { servers } = await rig({}, await there({}));
  await servers.suspend('theirs');
  await servers.resume('theirs');
  await assert.rejects(servers.suspend('nobodys'), { code: 'no_such_server' });
  for (const change of [servers.remove('theirs'), servers.change('theirs', text('theirs', url), PLAIN)]) {
    await assert.rejects(change, { code: 'not_added_here', message: /^theirs is not one of this node's: .* b, which/ });
  }
  const passing = await rig({}, await there({ temporary: true }));
  await assert.rejects(passing.servers.suspend('theirs'), { code: 'not_added_here' });
});
