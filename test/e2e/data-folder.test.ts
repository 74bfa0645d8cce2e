import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import { type CommandRun, said, startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { WireClient } from '../support/wire-client.ts';

const PORTS = ['--port', '0', '--control-port', '0'];
const NOBODY_UID = 65_534;
/** File permissions do not restrict root: a test that runs as root starts the gateway as the user `nobody`. */
const user: { readonly uid?: number } = process.getuid?.() === 0 ? { uid: NOBODY_UID } : {};

function place(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-data-'));
  chmodSync(folder, 0o755);
  writeFileSync(join(folder, 'trunkline.json'), JSON.stringify({ mcpServers: { good: manySided('good') } }));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function stopped(run: CommandRun): Promise<void> {
  run.process.kill('SIGTERM');
  assert.equal(await run.exited, 0, run.err);
}

/** Homes in which no folder for state can be made: the reason in the message, and how to set up the home. */
const HOMES: readonly [reason: RegExp, make: (folder: string) => string | undefined][] = [
  [/this user may not write there|its path cannot be made/, () => '/nonexistent'],
  [
    /a part of its path is no folder/,
    (folder) => {
      writeFileSync(join(folder, '.local'), 'a file');
      return folder;
    },
  ],
  [
    /this user may not write there/,
    (folder) => {
      const home = join(folder, 'home');
      mkdirSync(home);
      chmodSync(home, 0o555);
      return home;
    },
  ],
  [/folder \/\.local\/state\/trunkline cannot be used/, () => undefined],
];
/** Has no entry in passwd, and so no home. */
const UNKNOWN_UID = 64_123;

for (const [reason, make] of HOMES) {
  test(`without a folder for state everything is in memory, and the screen and the log report it: ${reason.source}`, async (t) => {
    const cwd = place(t);
    const home = make(cwd);
    if (home === undefined && user.uid === undefined) {
      t.skip('only root can become another user');
      return;
    }
    const env = { HOME: home, XDG_STATE_HOME: '' };
    const whose = home === undefined ? { uid: UNKNOWN_UID } : user;
    for (const source of [['trunkline.json'], ['--', process.execPath, MANY_SIDED]]) {
      const run = startTrunkline([...PORTS, ...source], { cwd, env: { ...env, NAME: 'good' }, ...whose });
      await said(run, /Servers .*\n/);
      const warning = /Warning {2}(the data folder .*)/.exec(run.out)?.[1] ?? '';
      assert.match(warning, reason);
      assert.match(warning, /keeps everything in memory: .* are lost when it stops.*--data-dir/);
      assert.match(run.err, /"event":"state_not_kept"/);
      const client = await WireClient.open(/http:\S+\/mcp/.exec(run.out)![0]);
      const [tool] = (await client.toolNames()).filter((name) => name.endsWith('__echo'));
      assert.equal(await client.callText(tool!, { text: 'x' }), 'x');
      await stopped(run);
    }
    const stdio = startTrunkline(['stdio', 'trunkline.json'], { cwd, env, input: true, ...whose });
    const clientInfo = { name: 'c', version: '1' };
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
    stdio.process.stdin!.end(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`);
    await said(stdio, '"serverInfo"');
    assert.equal(await stdio.exited, 0);
    for (const command of ['status', 'tools']) {
      const { code, out, err } = await trunkline([command, '--config', 'trunkline.json'], { cwd, env, ...whose });
      assert.equal(code, command === 'status' ? 4 : 0, err);
      assert.match(out, /good/);
    }
    const added = await trunkline(['add', 'x', 'https://example.com/mcp'], { cwd, env, ...whose });
    assert.deepEqual([added.code, /internal error/.test(added.err)], [1, false], added.err);
    assert.match(added.err, /the data folder .*\n {2}fix: name a folder/);
  });
}

test('a named folder that cannot be used is an error with the remedy, and never an internal one', async (t) => {
  const cwd = place(t);
  writeFileSync(join(cwd, 'file'), '');
  mkdirSync(join(cwd, 'closed'));
  chmodSync(join(cwd, 'closed'), 0o500);
  const named: readonly [folder: string, reported: RegExp][] = [
    [join(cwd, 'file'), /cannot be used: it is no folder/],
    [join(cwd, 'file', 'below'), /cannot be used: a part of its path is no folder/],
    [join(cwd, 'closed'), /cannot be used: this user may not write there/],
    [join(cwd, 'closed', 'below'), /cannot be used: this user may not write there/],
    ['/proc/none/below', /cannot be used: its path cannot be made/],
  ];
  for (const [folder, reported] of named) {
    for (const command of [[...PORTS], ['stdio']]) {
      const { code, err } = await trunkline([...command, '--data-dir', folder, 'trunkline.json'], { cwd, ...user });
      assert.equal(code, 1, err);
      assert.match(err, reported);
      assert.match(err, /\n {2}fix: name a folder that this user may write/);
      assert.doesNotMatch(err, /internal error|\n {4}at /);
    }
  }
  // The usual folder, with state in it: a gateway that goes on without it would forget approvals.
  const state = join(cwd, 'state', 'trunkline');
  mkdirSync(state, { recursive: true });
  writeFileSync(join(state, 'truth.db'), '');
  chmodSync(state, 0o555);
  const kept = await trunkline([...PORTS, 'trunkline.json'], { cwd, env: { XDG_STATE_HOME: dirname(state) }, ...user });
  assert.equal(kept.code, 1);
  assert.match(kept.err, /the data folder .* cannot be used: this user may not write there/);
});

test('a full disk and a read-only one are reported as such', (t) => {
  const cwd = place(t);
  const disk = join(cwd, 'disk');
  mkdirSync(disk);
  const start = `"$NODE" "$BIN" --port 0 --control-port 0 --data-dir "$DISK" trunkline.json`;
  const script = `mount -t tmpfs -o size=64k,mode=700 none "$DISK" && { dd if=/dev/zero of="$DISK/f" bs=1k count=64 2>/dev/null
    ${start}; echo "code $?" >&2; rm "$DISK/f"; mount -o remount,ro "$DISK"; ${start}; echo "code $?" >&2; }`;
  const env = { ...process.env, NODE: process.execPath, BIN: resolve('bin/trunkline.js'), DISK: disk };
  // The script has its own mounts; users other than root need a user namespace for that.
  const spaces = process.getuid?.() === 0 ? ['-m'] : ['-rm'];
  const { stderr, error } = spawnSync('unshare', [...spaces, 'sh', '-c', script], { cwd, env, encoding: 'utf8' });
  if (error !== undefined || /unshare failed|mount: .*(?:denied|permitted)/.test(stderr)) {
    t.diagnostic(`NOT RUN: this machine lets no process have mounts of its own: ${error?.message ?? stderr}`);
    return;
  }
  const [full, readOnly] = stderr.split(/(?<=code 1\n)/);
  assert.match(full!, /cannot be used: the disk is full\n {2}fix: free some space, or name a folder/);
  assert.match(readOnly!, /cannot be used: the file system is read-only\n {2}fix: name a folder/);
});

test('a folder or a token that others may write is refused with the remedy; the gateway’s own files are private', async (t) => {
  const cwd = place(t);
  const data = join(cwd, 'data');
  const run = async (): Promise<string> => {
    const one = startTrunkline([...PORTS, '--data-dir', data, 'trunkline.json'], { cwd });
    await Promise.race([said(one, 'Servers').catch(() => {}), one.exited]);
    if (one.process.exitCode === null) await stopped(one);
    else assert.equal(one.process.exitCode, 1, one.err);
    return one.err;
  };
  assert.doesNotMatch(await run(), /fix:/);
  assert.equal(statSync(data).mode & 0o777, 0o700);
  for (const name of readdirSync(data)) assert.equal(statSync(join(data, name)).mode & 0o077, 0, name);

  for (const mode of [0o777, 0o770, 0o702]) {
    chmodSync(data, mode);
    const reported = await run();
    assert.match(
      reported,
      /the data folder .* can be written by other users\n {2}fix: look what is in it, then run: chmod 700 /,
    );
  }
  chmodSync(data, 0o700);
  const token = join(data, 'control.token');
  chmodSync(token, 0o666);
  assert.match(await run(), /the file .*control\.token can be written by other users\n {2}fix: .*chmod 600 /);
  rmSync(token);
  const target = join(cwd, 'elsewhere');
  writeFileSync(target, 'x'.repeat(64));
  symlinkSync(target, token);
  assert.match(await run(), /control\.token is a symbolic link\n {2}fix: remove it/);
  assert.equal(statSync(target).size, 64);
  rmSync(token);
  if (process.getuid?.() === 0) {
    writeFileSync(token, 'x'.repeat(64), { mode: 0o600 });
    chownSync(token, NOBODY_UID, NOBODY_UID);
    assert.match(await run(), /control\.token belongs to another user \(65534\), who could write to it/);
    rmSync(token);
    chownSync(data, NOBODY_UID, NOBODY_UID);
    assert.match(
      await run(),
      /the data folder .* belongs to another user \(65534\).*\n {2}fix: start as that user, or run: chown 0 /,
    );
    chownSync(data, 0, 0);
  }
  assert.doesNotMatch(await run(), /fix:/);
});

test('--insecure warns on the screen, which shows where it listens', async (t) => {
  const cwd = place(t);
  const data = ['--data-dir', join(cwd, 'data')];
  const open = startTrunkline([...PORTS, ...data, '--host', '0.0.0.0', '--insecure', 'trunkline.json'], { cwd });
  await said(open, 'Servers');
  assert.match(open.out, /MCP {6}http:\/\/127\.0\.0\.1:\d+\/mcp.*\n +on all addresses of this machine \(0\.0\.0\.0\)/);
  assert.match(
    open.out,
    /Warning {2}Listening on 0\.0\.0\.0 without protection \(--insecure\)\. Every machine .* without a key/,
  );
  await stopped(open);
  const usual = startTrunkline([...PORTS, ...data, '--insecure', 'trunkline.json'], { cwd });
  await said(usual, 'Servers');
  assert.doesNotMatch(usual.out, /Warning|all addresses/);
  await stopped(usual);
});
