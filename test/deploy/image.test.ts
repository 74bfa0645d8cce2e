import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { parse } from 'yaml';
import { DockerEngine, noEngine } from '../support/docker-engine.ts';
import { packPackage } from '../support/packed-package.ts';
import { runProgram } from '../support/run-program.ts';

const DEPLOY = resolve(import.meta.dirname, '../../deploy');
const WAIT_MS = 60_000;
const REAPED_MS = 10_000;
/** The number of processes that have ended and that no parent has waited for. */
const ZOMBIES = `fs.readdirSync('/proc').filter((pid) => {
  try { return fs.readFileSync('/proc/' + pid + '/stat', 'latin1').includes(') Z ') } catch { return false }
}).length`;
const BASE = 'node-for-tests:1';
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';
const work = mkdtempSync(join(tmpdir(), 'trunkline-image-'));
const skip = noEngine() ?? false;
let engine: DockerEngine;

/** The service of compose.yaml; the test uses the same settings, and fails if it does not know one. */
interface Service {
  readonly image: string;
  readonly user: string;
  readonly init: boolean;
  readonly read_only: boolean;
  readonly cap_drop: readonly string[];
  readonly security_opt: readonly string[];
  readonly tmpfs: readonly string[];
  readonly volumes: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly ports: readonly string[];
  readonly stop_grace_period: string;
  readonly restart: string;
}
const compose = parse(readFileSync(join(DEPLOY, 'compose.yaml'), 'utf8')) as {
  readonly services: { readonly trunkline: Service };
  readonly volumes: object;
};
const service = compose.services.trunkline;

async function docker(...args: readonly string[]): Promise<string> {
  const env = { ...process.env, DOCKER_BUILDKIT: '0' };
  const { code, out, err } = await runProgram(['docker', '-H', `unix://${engine.socket}`, ...args], { env });
  assert.equal(code, 0, `docker ${args.join(' ')}\n${out}${err}`);
  return out.trim();
}

/** The server of the test; its tool returns the id of the user that runs it. */
const SERVER = `
import { createInterface } from 'node:readline';
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'own', version: '1' } },
  'tools/list': { tools: [{ name: 'whoami', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: String(process.getuid()) }] },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  const result = results[method] ?? {};
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
}
`;

/** The test cannot fetch a base image. This one has all that the Containerfile uses: Node, npm, a shell, mkdir and chmod. */
async function importBase(image: string): Promise<void> {
  const npm = join(work, 'npm.sh');
  const cli = realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim());
  const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  const environment = `NODE_EXTRA_CA_CERTS=${CERTIFICATES} npm_config_registry=${registry}`;
  writeFileSync(npm, `#!/bin/sh\n${environment} exec node /usr/lib/npm/bin/npm-cli.js "$@"\n`, { mode: 0o755 });
  const files = { '/bin/npm': npm, '/usr/lib/npm': resolve(cli, '../..'), [CERTIFICATES]: CERTIFICATES };
  await engine.importImage(image, files, ['/bin/mkdir', '/bin/chmod', '/usr/bin/env']);
}

before(
  async () => {
    if (skip) return;
    engine = await DockerEngine.start('auto');
    await importBase(BASE);
    const context = join(work, 'context');
    mkdirSync(context);
    const tarball = await packPackage(work);
    renameSync(tarball, join(context, basename(tarball)));
    writeFileSync(join(work, 'server.mjs'), SERVER);
    const options = ['--build-arg', `NODE=${BASE}`, '--network', 'host', '-t', service.image];
    await docker('build', ...options, '-f', join(DEPLOY, 'Containerfile'), context);
  },
  { timeout: 170_000 },
);
after(async () => {
  await engine?.[Symbol.asyncDispose]();
  rmSync(work, { recursive: true, force: true });
});

/** The arguments that start the image as compose does, but without a network. */
function runArguments(name: string, user: string, config: string): string[] {
  const { init, read_only, cap_drop, security_opt, tmpfs, volumes, environment, image, ...rest } = service;
  assert.deepEqual(Object.keys(rest).sort(), ['ports', 'restart', 'stop_grace_period', 'user'], 'an unknown setting');
  const [data, file] = volumes.map((volume) => volume.split(':'));
  assert.ok(data![0]! in compose.volumes);
  return [
    ...['run', '-d', '--health-interval', '1s', '--name', name, '--network', 'none', '--user', user],
    ...(init ? ['--init'] : []),
    ...(read_only ? ['--read-only'] : []),
    ...cap_drop.flatMap((capability) => ['--cap-drop', capability]),
    ...security_opt.flatMap((option) => ['--security-opt', option]),
    ...tmpfs.flatMap((path) => ['--tmpfs', path]),
    ...['-v', `${join(work, 'server.mjs')}:/opt/server.mjs:ro`],
    ...['-v', `${name}:${data![1]}`, '-v', `${config}:${file!.slice(1).join(':')}`],
    ...Object.keys(environment).flatMap((variable) => ['-e', `${variable}=${'k'.repeat(32)}`]),
    image,
  ];
}

for (const user of [service.user, '12345:12345']) {
  test(`the image runs as ${user} on a read-only root, is healthy, serves a call, and stops in order`, {
    skip,
  }, async () => {
    const name = `gateway-${user.split(':')[0]}`;
    const config = join(work, `${name}.yaml`);
    const source = readFileSync(join(DEPLOY, 'trunkline.yaml'), 'utf8');
    // There is no network to fetch the server of the example from.
    const own = source.replace(/^ {2}everything: .*$/m, '  own: { command: node, args: [/opt/server.mjs] }');
    assert.notEqual(own, source);
    writeFileSync(config, own);
    await docker(...runArguments(name, user, config));
    const state = (of: string): Promise<string> => docker('inspect', '-f', `{{${of}}}`, name);
    for (const end = performance.now() + WAIT_MS; (await state('.State.Health.Status')) !== 'healthy'; ) {
      const logs = await runProgram(['docker', '-H', `unix://${engine.socket}`, 'logs', name]);
      assert.equal(await state('.State.Running'), 'true', logs.err);
      assert.ok(performance.now() < end, `${await state('json .State.Health')}${logs.err}`);
      await new Promise((done) => setTimeout(done, 200));
    }
    const [uid] = user.split(':');
    assert.equal(await docker('exec', name, 'node', '-p', 'process.getuid()'), uid);
    const write = 'try { fs.writeFileSync("/x", ""); console.log("written") } catch ({ code }) { console.log(code) }';
    assert.equal(await docker('exec', name, 'node', '-e', write), 'EROFS');
    assert.equal(await docker('exec', name, 'trunkline', 'call', 'own.whoami'), uid);
    // The command returns only after the process that it leaves behind has ended.
    await docker('exec', name, 'sh', '-c', 'node -e "setTimeout(() => {}, 200)" &');
    for (const end = performance.now() + REAPED_MS; (await docker('exec', name, 'node', '-p', ZOMBIES)) !== '0'; )
      assert.ok(performance.now() < end, 'process 1 leaves processes that have ended');
    const refused = `fetch('http://127.0.0.1:4270/mcp', { method: 'POST' }).then(({ status }) => console.log(status))`;
    assert.equal(await docker('exec', name, 'node', '-e', refused), '401');
    await docker('stop', '-t', Number.parseInt(service.stop_grace_period, 10).toString(), name);
    assert.equal(await state('.State.ExitCode'), '0');
    await docker('start', name);
    assert.equal(await state('.State.Running'), 'true', 'it starts again with its data');
  });
}

test('only this machine reaches the port that compose publishes', () => {
  assert.deepEqual(service.ports, ['127.0.0.1:4270:4270']);
});
