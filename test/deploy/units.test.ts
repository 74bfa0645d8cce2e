import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type TestContext, test } from 'node:test';
import { StartedGateway } from '../support/fresh-machine.ts';
import { runProgram } from '../support/run-program.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const DEPLOY = join(ROOT, 'deploy');
const ANALYZE = 'systemd-analyze';

function folder(t: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), 'trunkline-units-'));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** The values of a key of the unit, in their order. */
function unitValues(key: string): string[] {
  const text = readFileSync(join(DEPLOY, 'trunkline.service'), 'utf8');
  return [...text.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value]) => value!);
}

test('systemd finds nothing wrong in the unit', async (t) => {
  const root = folder(t);
  // The unit refers to these units and to this program.
  cpSync('/usr/lib/systemd/system', join(root, 'usr/lib/systemd/system'), { recursive: true, verbatimSymlinks: true });
  for (const path of ['usr/local/bin', 'etc/systemd/system']) mkdirSync(join(root, path), { recursive: true });
  copyFileSync('/bin/true', join(root, 'usr/local/bin/trunkline'));
  const unit = join(root, 'etc/systemd/system/trunkline.service');
  copyFileSync(join(DEPLOY, 'trunkline.service'), unit);
  const verify = (): ReturnType<typeof runProgram> =>
    runProgram([ANALYZE, 'verify', '--man=no', `--root=${root}`, 'trunkline.service']);
  const found = await verify();
  assert.deepEqual([found.code, found.err], [0, '']);
  writeFileSync(unit, readFileSync(unit, 'utf8').replace('ProtectHome=yes', 'ProtectHome=maybe'));
  assert.match((await verify()).err, /protect home value/);
});

const needsRoot = process.getuid?.() !== 0 && 'another user needs root';
test('the gateway starts with the settings of the unit, as a user that owns only the state folder', {
  skip: needsRoot,
}, async (t) => {
  const root = folder(t);
  chmodSync(root, 0o755);
  const state = join(root, 'lib/trunkline');
  mkdirSync(state, { recursive: true });
  chmodSync(state, Number.parseInt(unitValues('StateDirectoryMode')[0]!, 8));
  chownSync(state, 12345, 12345);
  const environment = unitValues('Environment').flatMap((line) => line.split(' '));
  const env = Object.fromEntries(environment.map((one) => one.replaceAll('%S', join(root, 'lib')).split('=', 2)));
  const [program, file] = unitValues('ExecStart')[0]!.split(' ');
  assert.deepEqual([program, file], ['/usr/local/bin/trunkline', '/etc/trunkline/trunkline.yaml']);
  const config = join(root, 'trunkline.yaml');
  const example = readFileSync(join(DEPLOY, 'trunkline.yaml'), 'utf8');
  writeFileSync(config, example.replace(/^ {2}everything: .*$/m, ''));
  const command = [
    process.execPath,
    join(ROOT, 'bin/trunkline.js'),
    config,
    '--json',
    '--port',
    '0',
    '--control-port',
    '0',
  ] as const;
  const options = { cwd: '/', env: { ...env, AGENT_KEY: 'k'.repeat(32) }, uid: 12345, gid: 12345 };
  await using gateway = await StartedGateway.start(command, options);
  assert.equal((await fetch(gateway.mcpUrl.replace(/mcp$/, 'readyz'))).status, 200);
  const made = statSync(env['TRUNKLINE_DATA_DIR']!);
  assert.deepEqual([made.uid, made.mode & 0o777], [12345, 0o700]);
});

test('the property list is valid, and its command starts the gateway', async (t) => {
  const home = folder(t);
  const read = 'import json, plistlib, sys; print(json.dumps(plistlib.load(open(sys.argv[1], "rb"))))';
  const job = JSON.parse(
    execFileSync('python3', ['-c', read, join(DEPLOY, 'trunkline.plist')], { encoding: 'utf8' }),
  ) as {
    readonly Label: string;
    readonly ProgramArguments: readonly [string, ...string[]];
    readonly ExitTimeOut: number;
  };
  assert.equal(job.Label, 'trunkline');
  assert.ok(job.ExitTimeOut > 30);
  mkdirSync(join(home, '.config/trunkline'), { recursive: true });
  const config = { mcpServers: {}, listen: { port: 0 }, control: { port: 0 } };
  writeFileSync(join(home, '.config/trunkline/trunkline.yaml'), JSON.stringify(config));
  mkdirSync(join(home, 'bin'));
  symlinkSync(join(ROOT, 'bin/trunkline.js'), join(home, 'bin/trunkline'));
  symlinkSync(process.execPath, join(home, 'bin/node'));
  // The shell sets the PATH of the user from this file.
  writeFileSync(join(home, '.profile'), 'export PATH="$HOME/bin:$PATH"\n');
  const env = { HOME: home, PATH: '/usr/bin:/bin', TRUNKLINE_JSON: '1' };
  await using gateway = await StartedGateway.start(job.ProgramArguments, { cwd: '/', env });
  assert.equal((await fetch(gateway.mcpUrl.replace(/mcp$/, 'livez'))).status, 200);
});
