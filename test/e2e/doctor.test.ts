import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { runProgram } from '../../src/cli/program.ts';
import { IMAGE } from '../support/docker-engine.ts';
import { FakeDocker } from '../support/fake-docker.ts';
import { FakeSsh } from '../support/fake-ssh.ts';
import { freePort } from '../support/free-port.ts';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import { MistakenNetwork, NEW_REVISION } from '../support/mistaken-network.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';

interface Step {
  readonly step: string;
  readonly state: 'ok' | 'warning' | 'failed';
  readonly text: string;
  readonly fix: string | null;
}
interface Report {
  readonly ok: boolean;
  readonly machine: readonly Step[];
  readonly servers: readonly { readonly name: string; readonly steps: readonly Step[]; readonly stderr: string[] }[];
}

let network: MistakenNetwork;
let folder = '';
before(async () => {
  network = await MistakenNetwork.open();
  folder = mkdtempSync(join(tmpdir(), 'trunkline-doctor-'));
});
after(async () => {
  await network.close();
  rmSync(folder, { recursive: true, force: true });
});

const PORTS = ['--port', '0', '--control-port', '0'];

async function report(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const words = ['doctor', ...args, '--json', '--data-dir', join(folder, 'data'), ...PORTS];
  const { code, out, err } = await trunkline(words, { cwd: folder, env });
  assert.equal(err, '');
  return { code, ...(JSON.parse(out) as Report) };
}

function configured(name: string, mcpServers: object, more: object = {}): string {
  writeFileSync(join(folder, name), JSON.stringify({ mcpServers, ...more }));
  return name;
}

test('each server is tried step by step, up to the step that fails, with the reason and a remedy', async () => {
  const node = process.execPath;
  const run = (script: string, more = {}) => ({ command: node, args: ['-e', script], ...more });
  const tls = { tls: { ca: 'ca.pem' } };
  writeFileSync(join(folder, 'ca.pem'), network.authority.cert);
  const closed = `http://127.0.0.1:${await freePort()}/mcp`;
  const expected: Record<string, [object, string, RegExp, RegExp]> = {
    both: [{ command: 'x', url: closed }, 'definition', /both command and url/, /keep one/],
    nocommand: [{ command: 'no-such-command' }, 'command', /"no-such-command" is not on the PATH/, /install it/],
    nofolder: [{ command: node, cwd: './none' }, 'command', /working folder .*none does not exist/, /create it/],
    dies: [
      run('console.error("Error: DATABASE_URL is required"); process.exit(3)'),
      'start',
      /DATABASE_URL/,
      /by hand/,
    ],
    silent: [run('setInterval(() => {}, 999)', { startupTimeoutMs: 1500 }), 'initialize', /1500 ms/, /speaks no MCP/],
    name: [{ url: 'https://no-such-host.invalid/mcp' }, 'name', /ENOTFOUND|EAI_AGAIN/, /name/],
    port: [{ url: closed }, 'connection', /ECONNREFUSED/, /nothing listens at 127\.0\.0\.1:\d+; start the server/],
    plain: [{ url: network.http.replace('http:', 'https:') }, 'certificate', /WRONG_VERSION/, /http:\/\//],
    signed: [{ url: network.selfSigned }, 'certificate', /certificate is for 127.*signed by Unknown/, /tls\.ca/],
    named: [{ url: network.otherName, ...tls }, 'certificate', /for other\.example/, /other names/],
    expired: [{ url: network.expired, ...tls }, 'certificate', /\(over\)/, /renewed/],
    path: [{ url: `${network.http}/mcp` }, 'http', /404: nothing here/, /path of its url/],
    mute: [run(NEW_REVISION), 'initialize', /unknown protocol revision 2099-01-01/, /install another version of it/],
    far: [{ url: 'https://far.example/mcp' }, 'connection', /ECONNREFUSED/, /the proxy 127\.0\.0\.1:9 .*NO_PROXY/],
    down: [{ url: `${network.http}/500` }, 'http', /500: database is down/, /own log/],
    moved: [{ url: `${network.http}/moved` }, 'http', /308: redirects are not followed/, /127\.0\.0\.1:1\/mcp\//],
    hangs: [{ url: `${network.http}/hang`, startupTimeoutMs: 1500 }, 'http', /1500 ms/, /does not answer/],
    login: [{ url: `${network.http}/401` }, 'login', /asks for credentials; scope read/, /trunkline login login/],
    html: [{ url: `${network.http}/html` }, 'initialize', /text\/html/, /web page/],
    engine: [
      { docker: { image: 'some', engine: 'unix:///none.sock' } },
      'connection',
      /no container engine/,
      /start it|DOCKER_HOST/,
    ],
  };
  const servers = Object.fromEntries(Object.entries(expected).map(([name, [definition]]) => [name, definition]));
  const file = configured('many.json', { good: manySided('good'), ...servers });
  const proxied = { HTTPS_PROXY: 'http://127.0.0.1:9', NO_PROXY: 'no-such-host.invalid' };
  const { code, ok, machine, servers: found } = await report([file], proxied);
  assert.deepEqual([code, ok], [4, false]);
  assert.deepEqual(
    machine.filter(({ state }) => state === 'failed'),
    [],
  );
  const steps = (name: string) => found.find((server) => server.name === name)!.steps;
  const names = ['definition', 'command', 'variables', 'start', 'initialize', 'lists'];
  assert.deepEqual(
    steps('good').map(({ step, state }) => (state === 'ok' ? step : `${step} ${state}`)),
    names,
  );
  assert.match(steps('good').at(-2)!.text, /^many-sided 1 speaks 2025-11-25$/);
  assert.match(steps('good').at(-1)!.text, /^10 tools, /);
  for (const [name, [, step, words, remedy]] of Object.entries(expected)) {
    const all = steps(name);
    const last = all.at(-1)!;
    assert.deepEqual([last.step, last.state], [step, 'failed'], `${name}: ${JSON.stringify(all)}`);
    assert.match(last.text, words, name);
    assert.match(last.fix ?? '', remedy, name);
    // The server of `login` publishes no metadata.
    for (const { step, state } of all.slice(0, -1))
      assert.equal(state, step.endsWith(' metadata') ? 'warning' : 'ok', name);
  }
  assert.ok(!existsSync(join(folder, 'data')), 'no data folder was created');
});

test('text beside messages on the standard output of a server is a warning; a named server is tried alone', async () => {
  const chatty = { command: 'sh', args: ['-c', `echo Starting up; exec "${process.execPath}" "${MANY_SIDED}"`] };
  const file = configured('chatty.json', { chatty, off: { ...manySided('off'), disabled: true } });
  const { code, servers } = await report([file]);
  assert.equal(code, 0);
  const [first, second] = servers;
  const output = first!.steps.at(-1)!;
  assert.deepEqual([output.step, output.state], ['output', 'warning']);
  assert.match(output.text, /Starting up/);
  assert.match(second!.steps[0]!.text, /disabled/);
  const named = await report([file, 'off']);
  assert.deepEqual([named.code, named.servers.map(({ name }) => name)], [0, ['off']]);
  assert.equal(named.servers[0]!.steps.at(-1)!.step, 'lists');
  const wrong = await trunkline(['doctor', file, 'chaty'], { cwd: folder });
  assert.deepEqual([wrong.code, /did you mean "chatty"/.test(wrong.err)], [1, true], wrong.err);
});

test('definitions that clients do not get, or get under another name, are warnings, each with the reason', async () => {
  const tool = (name: string, type = 'object') => ({ name, inputSchema: { type } });
  writeFileSync(
    join(folder, 'offer.json'),
    JSON.stringify({ tools: [tool('fine'), tool('rows', 'array'), tool('two words'), tool('x'.repeat(60))] }),
  );
  const changing = resolve(import.meta.dirname, '../fixtures/drift/changing.mjs');
  const file = configured('odd.json', {
    odd: { command: process.execPath, args: [changing, join(folder, 'offer.json')] },
  });
  const { code, servers } = await report([file]);
  assert.equal(code, 0);
  const last = servers[0]!.steps.slice(-3);
  assert.deepEqual(
    last.map(({ step, state }) => `${step} ${state}`),
    ['schemas warning', 'names warning', 'names warning'],
  );
  const [schemas, names, renamed] = last;
  assert.match(schemas!.text, /^clients do not get tools\/list "rows": "inputSchema\.type" is not "object"$/);
  assert.match(names!.text, /^clients do not get "two words": the name has characters outside /);
  assert.match(names!.fix!, /correct it in the server/);
  assert.match(renamed!.text, /^clients get "x{60}" as odd__x{34}_[0-9a-f]{8}: longer than 48 characters /);
  assert.match(renamed!.fix!, /rename the tool or the server/);
});

test('the name of a server may have a dot, and be that of a folder', async () => {
  mkdirSync(join(folder, 'web.v2'));
  configured('trunkline.json', { 'web.v2': manySided('web'), other: { command: 'no-such-command' } });
  const { code, servers } = await report(['web.v2']);
  rmSync(join(folder, 'trunkline.json'));
  assert.deepEqual([code, servers.map(({ name }) => name)], [0, ['web.v2']]);
});

test('the machine: files, ports, the data folder', async () => {
  const busy = createServer().listen(0, '127.0.0.1');
  await new Promise((done) => busy.once('listening', done));
  const { port } = busy.address() as AddressInfo;
  const file = configured('one.json', { good: manySided('good') });
  writeFileSync(join(folder, 'a-file'), '');
  const words = ['doctor', file, 'good', '--port', `${port}`, '--control-port', '0'];
  const { code, out } = await trunkline([...words, '--data-dir', join(folder, 'a-file', 'data')], { cwd: folder });
  busy.close();
  assert.equal(code, 4);
  assert.match(out, new RegExp(`FAIL +port +127\\.0\\.0\\.1:${port} is in use by another process`));
  assert.match(out, /FAIL +data .*a part of its path is no folder\n +fix: name a folder/);
  assert.match(out, /ok +program +trunkline \d.*Node\.js 24/);
  assert.match(out, /this machine has problems; 1 of 1 servers healthy\n$/);
  writeFileSync(join(folder, 'broken.json'), '{ "mcpServers": ');
  const broken = await trunkline(['doctor', 'broken.json'], { cwd: folder });
  assert.equal(broken.code, 4);
  assert.match(broken.out, /FAIL +file +TL1101 +broken\.json:1:/);
  const none = await trunkline(['doctor'], { cwd: '/' });
  assert.match(none.out, /FAIL +file +no configuration file.*\n +fix: make one: trunkline init/);
});

test('beside a running gateway, doctor also reports the states there, and restarts no server', async (t) => {
  const data = ['--data-dir', join(folder, 'running')];
  const file = configured('running.json', { good: manySided('good'), path: { url: `${network.http}/none` } });
  const gateway = startTrunkline([file, ...PORTS, ...data], { cwd: folder });
  t.after(async () => {
    gateway.process.kill('SIGTERM');
    await gateway.exited;
  });
  await said(gateway, 'Servers');
  const { code, out } = await trunkline(['doctor', ...data, ...PORTS], { cwd: folder });
  assert.equal(code, 4);
  assert.match(out, new RegExp(`gateway +runs as pid ${gateway.process.pid} `));
  assert.match(out, /gateway +running there, 10 tools/);
  assert.match(out, /FAIL +http +mcp http status 404/);
  assert.match(out, /FAIL +gateway +failed there: .*404/);
  const status = await trunkline(['status', 'good', ...data], { cwd: folder });
  assert.equal(status.code, 0);
  assert.doesNotMatch(status.out, /restarts/);
});

test('for a gateway that was started by a command line, doctor tries the server of the command line', async (t) => {
  const cwd = realpathSync(mkdtempSync(join(tmpdir(), 'trunkline-doctor-line-')));
  const options = { cwd, env: { HOME: cwd, XDG_STATE_HOME: join(cwd, 'state') } };
  const gateway = startTrunkline([...PORTS, '--', process.execPath, MANY_SIDED], options);
  t.after(async () => {
    gateway.process.kill('SIGTERM');
    await gateway.exited;
    rmSync(cwd, { recursive: true, force: true });
  });
  await said(gateway, 'Servers');
  for (const words of [[], ['many-sided']]) {
    const { code, out, err } = await trunkline(['doctor', ...words], options);
    assert.equal(code, 0, out + err);
    assert.match(out, /ok +file +.*many-sided.*: 1 server\n/);
    assert.match(out, /^many-sided\n(?:.*\n)* +ok +lists +10 tools.*\n +ok +gateway +running there, 10 tools\n/m);
    assert.match(out, /1 of 1 servers healthy\n$/);
  }
});

test('init writes a valid first file, only once, and names the next steps', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-init-'));
  try {
    const first = await trunkline(['init'], { cwd });
    assert.deepEqual([first.code, first.err], [0, '']);
    assert.match(first.out, /^wrote trunkline\.json[\s\S]*trunkline doctor[\s\S]*starts the gateway/);
    assert.match((await trunkline(['check'], { cwd })).out, /trunkline\.json: ok, 1 server/);
    const again = await trunkline(['init'], { cwd });
    assert.deepEqual([again.code, /is there already/.test(again.err)], [1, true], again.err);
    const client = await trunkline(['init', '.mcp.json'], { cwd });
    assert.equal(client.code, 0);
    assert.match((await trunkline(['check', '.mcp.json'], { cwd })).out, /ok, 1 server/);
    const yaml = await trunkline(['init', 'x.yaml'], { cwd });
    assert.deepEqual([yaml.code, /writes JSON/.test(yaml.err)], [1, true]);
    rmSync(join(cwd, 'trunkline.json'));
    const shadowed = await trunkline(['init'], { cwd });
    assert.deepEqual([shadowed.code, /\.mcp\.json is here already/.test(shadowed.err)], [1, true], shadowed.err);
    assert.deepEqual(readdirSync(cwd), ['.mcp.json']);
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
});

test('on a terminal init offers the servers of the clients, and keeps secrets out of the file', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-init-'));
  try {
    const token = 'ghp_0123456789abcdef';
    const gh = { command: 'npx', args: ['gh'], env: { GITHUB_TOKEN: token } };
    mkdirSync(join(cwd, 'home', '.cursor'), { recursive: true });
    mkdirSync(join(cwd, 'project', '.git'), { recursive: true });
    writeFileSync(join(cwd, 'home', '.cursor', 'mcp.json'), JSON.stringify({ mcpServers: { gh } }));
    const questions: string[] = [];
    let text = '';
    const write = (more: string): void => {
      text += more;
    };
    const code = await runProgram(['init', '--data-dir', join(cwd, 'data')], {
      out: write,
      err: write,
      env: { PATH: process.env['PATH'], HOME: join(cwd, 'home') },
      cwd: join(cwd, 'project'),
      version: '0',
      ask: async ({ description }) => {
        questions.push(description);
        return 'y';
      },
    });
    assert.equal(code, 0, text);
    assert.deepEqual(questions, ['Put this server of your clients into the file?']);
    const written = readFileSync(join(cwd, 'project', 'trunkline.json'), 'utf8');
    assert.ok(!written.includes(token) && !text.includes(token));
    assert.match(written, /"GITHUB_TOKEN": "\$\{secret:gh-github_token\}"/);
    const checked = await trunkline(['check', '--data-dir', join(cwd, 'data')], { cwd: join(cwd, 'project') });
    assert.match(checked.out, /trunkline\.json: ok, 1 server/, checked.err);
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
});

test('doctor reports whether the engine of a container answers, and whether ssh reaches another host', async () => {
  const engine = await FakeDocker.start();
  const far = new FakeSsh();
  const command = [process.execPath, MANY_SIDED];
  const docker = { engine: `unix://${engine.socket}` };
  const { host, user, port, identityFile, knownHostsFile } = far.spec();
  const ssh = { host, user, port, identityFile, knownHostsFile };
  try {
    const file = configured('elsewhere.json', {
      boxed: { docker: { ...docker, image: IMAGE }, args: command },
      noimage: { docker: { ...docker, image: 'nowhere:1' } },
      far: { command: command[0], args: command.slice(1), ssh },
      stranger: { command: 'x', ssh: { ...ssh, identityFile: join(far.folder, 'stranger') } },
    });
    const { servers } = await report([file], { PATH: far.environment.PATH });
    const lines = servers.map(({ name, steps }) => [name, steps.map(({ step, state }) => `${step} ${state}`).join()]);
    assert.deepEqual(Object.fromEntries(lines), {
      boxed: 'definition ok,connection ok,start ok,initialize ok,lists ok',
      noimage: 'definition ok,connection ok,start failed',
      far: 'definition ok,command ok,connection ok,start ok,initialize ok,lists ok',
      stranger: 'definition ok,command ok,connection failed',
    });
    assert.match(servers[1]!.steps.at(-1)!.fix ?? '', /docker pull nowhere:1/);
    assert.match(servers[3]!.steps.at(-1)!.fix ?? '', /ssh -o BatchMode=yes 127\.0\.0\.1 true/);
  } finally {
    await engine[Symbol.asyncDispose]();
    await far[Symbol.asyncDispose]();
  }
});
