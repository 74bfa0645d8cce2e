import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rememberInputs } from '../config/document/inputs.ts';
import { FileSystemProbe } from '../config/files/watch-config.ts';
import { type LoadOptions, loadConfig } from '../config/load-config.ts';
import { renderProblem } from '../config/problem/problem.ts';
import { ConfigFollower, type FollowerDeps } from './config-follower.ts';
import { Registry } from './registry.ts';
import type { Reload } from './reload-report.ts';

let folder = '';
let follower: ConfigFollower | null = null;
let registry: Registry;
let reloads: Reload[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tl-follow-'));
  reloads = [];
});
afterEach(() => {
  follower?.close();
  rmSync(folder, { recursive: true });
});

function write(servers: Record<string, unknown> | string): void {
  const text = typeof servers === 'string' ? servers : JSON.stringify({ mcpServers: servers });
  writeFileSync(join(folder, 'trunkline.json'), text);
}

async function follow(
  inputs?: () => Promise<string>,
  env: LoadOptions['env'] = {},
  report: FollowerDeps['report'] = (reload) => void reloads.push(reload),
  probe = new FileSystemProbe(),
): Promise<ConfigFollower> {
  const options = {
    files: ['trunkline.json'],
    cwd: folder,
    env,
    ...(inputs === undefined ? {} : { inputs: rememberInputs(inputs) }),
  };
  const initial = await loadConfig(options);
  assert.ok(initial.ok);
  registry = new Registry(initial.state);
  const watching = { debounceMs: 20, probe };
  follower = new ConfigFollower({ registry, options, initial, report, watching });
  return follower;
}

async function until(done: () => boolean): Promise<void> {
  for (let waited = 0; !done() && waited < 5000; waited += 10) await sleep(10);
  assert.ok(done(), 'did not happen');
}

const twenty = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`s${index}`, { command: `c${index}` }]));

test('a saved change of one server in twenty leaves nineteen the same check:A10', async () => {
  write(twenty);
  await follow();
  const heard: unknown[] = [];
  registry.onChange(({ servers: { added, removed, changed, updated, same } }) => {
    heard.push({ added, removed, changed, updated, same: same.length });
  });
  write({ ...twenty, s7: { command: 'other' } });
  await until(() => heard.length > 0);
  assert.deepEqual(heard, [{ added: [], removed: [], changed: ['s7'], updated: [], same: 19 }]);
});

test('fault:F37 a bad file keeps the old configuration and the reason until it is good again check:A10', async () => {
  write(twenty);
  await follow();
  const before = registry.state;
  registry.onChange(({ servers }) => assert.deepEqual(servers.changed, ['s1']));
  write('{ "mcpServers": { "s0": { "command": "y" } }, "sesions": {} }');
  await until(() => reloads.length > 0);
  assert.equal(reloads[0]!.kind, 'refused');
  assert.deepEqual(
    follower!.problems.map(({ code }) => code),
    ['TL1301'],
  );
  assert.equal(registry.state, before);
  assert.equal(registry.version, 1);
  write({ ...twenty, s1: { command: 'new' } });
  await until(() => registry.version === 2);
  assert.deepEqual(follower!.problems, []);
});

test('check:A10 a mistake in one definition leaves its server unchanged, and the others follow the file', async () => {
  write(twenty);
  await follow();
  const before = registry.state.servers.get('s1');
  write({ ...twenty, s1: { comand: 'x' }, s2: { command: 'new' }, fresh: { url: 'nonsense' } });
  await until(() => registry.version === 2);
  const { servers } = registry.state;
  assert.equal(servers.get('s1'), before);
  assert.match(
    servers.get('fresh')!.misconfigured!,
    /^mcpServers\.fresh\.url .*\(TL1408, trunkline\.json:\d+:\d+\); fix: /,
  );
  const { transport } = servers.get('s2')!;
  assert.equal(transport.type === 'stdio' && transport.command, 'new');
  assert.deepEqual(follower!.problems.map(({ code }) => code).sort(), ['TL1301', 'TL1408']);
  assert.equal(reloads.at(-1)!.kind, 'applied');
  // After a further change s1 keeps its last good definition, and that of fresh, now valid, is applied.
  write({ ...twenty, s1: { comand: 'x' }, s2: { command: 'newer' }, fresh: { url: 'http://127.0.0.1/' } });
  await until(() => registry.version === 3);
  assert.equal(registry.state.servers.get('s1'), before);
  assert.equal(registry.state.servers.get('fresh')!.misconfigured, undefined);
  write({ ...twenty, s1: { command: 'y' } });
  await until(() => registry.version === 4);
  assert.deepEqual(follower!.problems, []);
});

test('a missing file keeps the old configuration', async () => {
  write(twenty);
  await follow();
  rmSync(join(folder, 'trunkline.json'));
  await until(() => reloads.length > 0);
  assert.equal(registry.state.servers.size, 20);
  assert.deepEqual(
    follower!.problems.map(({ code }) => code),
    ['TL1001'],
  );
});

test('the gateway follows files that the configuration names, also those of a refused one', async () => {
  writeFileSync(join(folder, 'token'), 'first-token');
  write({ one: { command: 'x', env: { T: '${file:token}', U: '${file:later}' }, enabled: true } });
  writeFileSync(join(folder, 'later'), 'later-1');
  await follow();
  writeFileSync(join(folder, 'token'), 'second-token');
  await until(() => registry.version === 2);
  assert.ok(reloads[0]!.secrets.includes('second-token'));
  rmSync(join(folder, 'later'));
  await until(() => follower!.problems.length > 0);
  writeFileSync(join(folder, 'later'), 'later-2');
  await until(() => registry.version === 3);
});

test('reads do not overlap, and one requested meanwhile follows', async () => {
  write({ one: { command: 'a' } });
  await follow();
  const first = follower!.reload();
  write({ one: { command: 'b' } });
  const second = follower!.reload();
  assert.equal(follower!.reload(), second);
  await first;
  await second;
  const { transport } = registry.state.servers.get('one')!;
  assert.equal(transport.type === 'stdio' && transport.command, 'b');
});

test('check:A8 no reading and no plan begins while a file gives no answer', async () => {
  write({ one: { command: 'a' } });
  const { promise, resolve } = Promise.withResolvers<void>();
  await follow(undefined, {}, undefined, new FileSystemProbe(() => promise));
  write({ one: { command: 'b' } });
  let planned = 0;
  const done = Promise.all([follower!.reload(), follower!.plan().then(() => planned++)]);
  await sleep(200);
  assert.deepEqual([reloads.length, planned], [0, 0]);
  resolve();
  await done;
  assert.deepEqual([registry.version, planned], [2, 1]);
});

test('a reload does not ask for an input again', async () => {
  let asked = 0;
  write({ one: { command: 'a', env: { K: '${input:key}' } } });
  await follow(async () => `answer-${++asked}`);
  write({ one: { command: 'b', env: { K: '${input:key}' } } });
  await follower!.reload();
  await follower!.reload();
  assert.equal(asked, 1);
});

/** A variable that cannot be read: an example of any defect during a read. */
const failing = {
  get BROKEN(): string {
    throw new TypeError('cannot read GEHEIM\n    at GEHEIM');
  },
};

test('fault:F37 a read that throws is reported as refused, keeps the old configuration, and the next change is read', async () => {
  write({ one: { command: 'a' } });
  await follow(undefined, failing);
  const before = registry.state;
  write({ one: { command: '${BROKEN}' } });
  // No caller waits for this read: if it rejected, the process would end.
  await until(() => reloads.length > 0);
  const [reported] = reloads;
  assert.ok(reported?.kind === 'refused');
  assert.equal(reported.problems[0]!.file, join(folder, 'trunkline.json'));
  const text = reported.problems.map((problem) => renderProblem(problem, folder)).join('\n');
  assert.match(text, /^TL1002 {2}trunkline\.json {2}.*TypeError at .*config-follower\.test\.ts:\d+/);
  assert.doesNotMatch(text, /GEHEIM/);
  assert.deepEqual(follower!.problems, reported.problems);
  assert.equal(registry.state, before);
  assert.equal((await follower!.reload()).kind, 'refused');
  write({ one: { command: 'b' } });
  await until(() => registry.version === 2);
  assert.deepEqual(follower!.problems, []);
});

test('fault:F37 a secret that is rotated to one with a bad % is refused, and the next rotation is read', async () => {
  const secret = '0123456789abcdef0123456789abcdef';
  const cluster = { nats: 'nats://n', secret, store: 'postgresql://t:${file:db}@db/x' };
  writeFileSync(join(folder, 'db'), 'first-password');
  write(JSON.stringify({ mcpServers: {}, cluster }));
  await follow();
  writeFileSync(join(folder, 'db'), 'hunter-50%off');
  await until(() => reloads.length > 0);
  assert.deepEqual(
    follower!.problems.map(({ code }) => code),
    ['TL1704'],
  );
  assert.doesNotMatch(JSON.stringify(follower!.problems), /hunter/);
  assert.match(registry.state.cluster!.store!.reveal(), /first-password/);
  writeFileSync(join(folder, 'db'), 'hunter-50%25off');
  await until(() => registry.state.cluster!.store!.reveal().includes('hunter-50%25off'));
  assert.deepEqual(follower!.problems, []);
});

test('a layer that throws leaves everything as it was', async () => {
  write({ one: { command: 'a' } });
  let broken = true;
  await follow();
  registry.addLayer((state) => {
    if (broken) throw new Error('no layer');
    return state;
  });
  write({ one: { command: 'b' } });
  await until(() => reloads.length > 0);
  assert.equal(reloads[0]!.kind, 'refused');
  broken = false;
  registry.refresh();
  assert.equal(registry.version, 1);
  assert.equal((await follower!.reload()).kind, 'applied');
  registry.refresh();
  const { transport } = registry.state.servers.get('one')!;
  assert.equal(transport.type === 'stdio' && transport.command, 'b');
});

test('a state whose listener throws is not in force, and the gateway goes on', async () => {
  write({ one: { command: 'a' } });
  let broken = true;
  await follow(undefined, {}, (reload) => {
    reloads.push(reload);
    if (broken) throw new Error('no report');
  });
  write({ one: { command: 'b' } });
  await until(() => reloads.length === 2);
  assert.deepEqual(
    reloads.map(({ kind }) => kind),
    ['applied', 'refused'],
  );
  assert.equal(registry.version, 1);
  assert.equal(follower!.problems.length, 1);
  broken = false;
  assert.equal((await follower!.reload()).kind, 'applied');
});

test('a listener that throws ends nothing; the state in force is not reported as refused', async () => {
  write({ one: { command: 'a' } });
  await follow();
  const end = registry.onChange(() => {
    throw new RangeError('GEHEIM');
  });
  write({ one: { command: 'b' } });
  await until(() => reloads.length === 2);
  assert.deepEqual(
    reloads.map(({ kind }) => kind),
    ['applied', 'applied'],
  );
  const [, last] = reloads;
  assert.ok(last?.kind === 'applied');
  assert.match(last.warnings[0]!.message, /is in force, but .* RangeError at .*config-follower\.test\.ts/);
  assert.doesNotMatch(JSON.stringify(last), /GEHEIM/);
  assert.equal(registry.version, 2);
  assert.deepEqual(follower!.problems, []);
  end();
  assert.equal((await follower!.reload()).kind, 'unchanged');
});
