import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { runProgram } from '../../src/cli/program.ts';
import type { ServerStatus } from '../../src/model/server-state.ts';
import { freePort } from '../support/free-port.ts';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import { MistakenNetwork, NEW_REVISION } from '../support/mistaken-network.ts';
import { COMMAND_MISTAKES } from '../support/mistakes/commands.ts';
import { FILE_MISTAKES } from '../support/mistakes/files.ts';
import { assertHelpful, type Held } from '../support/mistakes/mistake.ts';
import { type CommandRun, said, startTrunkline, trunkline } from '../support/run-trunkline.ts';

/**
 * Over a hundred mistakes of beginners. Each answer has cause, place and remedy and no stack, and no mistake ends a
 * running gateway. Mistakes that need no process of their own run in this one.
 */
let counted = 0;
const PORTS = ['--port', '0', '--control-port', '0'];
const KEY = 'key-of-ada-0123456789';
const folder = mkdtempSync(join(tmpdir(), 'trunkline-mistakes-'));
chmodSync(folder, 0o755);
after(() => rmSync(folder, { recursive: true, force: true }));

/** One command in this process, as on a terminal without colours. */
async function tl(words: readonly string[], cwd: string): Promise<{ readonly code: number; readonly text: string }> {
  let text = '';
  const write = (more: string): void => {
    text += more;
  };
  const home = join(folder, 'home');
  const env = { PATH: process.env['PATH'], HOME: home, XDG_STATE_HOME: join(home, 'state') };
  const code = await runProgram(words, { out: write, err: write, env, cwd, version: '0', ask: null });
  return { code, text };
}

describe('mistakes in files', () => {
  for (const [index, [mistake, content, cause, remedy, file = 'trunkline.json']] of FILE_MISTAKES.entries()) {
    counted++;
    test(`${file}: ${mistake}`, async () => {
      const cwd = join(folder, `file-${index}`);
      mkdirSync(cwd);
      const text = typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content, null, 2);
      writeFileSync(join(cwd, file), text);
      const { code, text: answer } = await tl(['check', file], cwd);
      assertHelpful(mistake, answer, { cause, place: new RegExp(`TL\\d{4} +${file}(?::\\d+:\\d+|  )`), remedy });
      // A warning does not prevent a start.
      assert.equal(code, /^(?!warning )TL\d{4} /m.test(answer) ? 1 : 0, answer);
      assert.doesNotMatch(answer, /geheim1/, 'a secret is shown');
    });
  }
});

describe('mistakes beside a running gateway', () => {
  let network: MistakenNetwork;
  let gateway: CommandRun;
  let cwd = '';
  let data: readonly string[] = [];
  let url = '';
  let config: { mcpServers: Record<string, object> };

  before(async () => {
    network = await MistakenNetwork.open();
    cwd = join(folder, 'running');
    data = ['--data-dir', join(cwd, 'data')];
    mkdirSync(cwd);
    writeFileSync(join(cwd, 'ca.pem'), network.authority.cert);
    writeFileSync(join(cwd, 'script.sh'), '#!/no/such/interpreter\n', { mode: 0o755 });
    writeFileSync(join(cwd, 'not-executable'), 'x');
    const servers = serverMistakes(network, await freePort());
    const mcpServers = Object.fromEntries(servers.map(([name, definition]) => [name, definition]));
    config = { mcpServers: { good: manySided('good'), ...mcpServers } };
    write({ agents: { ada: { key: KEY, servers: ['good'] } } });
    gateway = startTrunkline([...PORTS, ...data], { cwd });
    await said(gateway, /^ {2}Servers/m);
    url = /http:\/\/127\.0\.0\.1:\d+/.exec(gateway.out)![0];
  });
  after(async () => {
    gateway.process.kill('SIGTERM');
    await gateway.exited;
    await network.close();
  });

  function write(more: object): void {
    writeFileSync(join(cwd, 'trunkline.json'), JSON.stringify({ ...config, ...more }, null, 2));
  }
  const ask = (...words: string[]) => {
    const cut = words.indexOf('--');
    return tl(cut < 0 ? [...words, ...data] : [...words.slice(0, cut), ...data, ...words.slice(cut)], cwd);
  };

  test('servers that are not what was meant', async () => {
    let servers: readonly ServerStatus[] = [];
    const settled = ({ state, lastLaunchFailure }: ServerStatus): boolean =>
      lastLaunchFailure !== null || state === 'running' || state === 'misconfigured';
    const end = performance.now() + 20_000;
    do {
      await pause(50);
      ({ servers } = JSON.parse((await ask('status', '--json')).text) as { servers: readonly ServerStatus[] });
    } while (!servers.every(settled) && performance.now() < end);
    for (const [name, , held] of serverMistakes(network, 1)) {
      counted++;
      const { reason, lastLaunchFailure } = servers.find((status) => status.name === name)!;
      const answer = `${name}: ${reason}\n${lastLaunchFailure?.error ?? ''}\n${lastLaunchFailure?.likelyCause ?? ''}`;
      assertHelpful(name, answer, { place: new RegExp(name), ...held });
    }
  });

  test('a call to a server where nothing listens fails with this reason and the remedy', async () => {
    const { code, text } = await ask('call', 'refused.echo');
    assert.equal(code, 4, text);
    assert.match(
      text,
      /the server refused cannot be called: connect ECONNREFUSED .*; nothing listens at .*start the server there/,
    );
  });

  for (const [words, cause, place, remedy, code = 1] of COMMAND_MISTAKES) {
    counted++;
    test(`trunkline ${words.join(' ')}`, async () => {
      const answer = await ask(...words);
      assertHelpful(words.join(' '), answer.text, { cause, place, remedy });
      assert.equal(answer.code, code, answer.text);
    });
  }

  const ADDED: readonly (readonly [words: readonly string[], held: Held])[] = [
    [['wrong1', 'no-such-program'], { cause: /not on the PATH/, place: /no-such-program/, remedy: /install it/ }],
    [
      ['wrong2', 'node', './nothere.js'],
      { cause: /Cannot find module/, place: /nothere\.js/, remedy: /hint .*trunkline doctor wrong2/ },
    ],
    [
      ['wrong3', 'https://no-such-host.invalid/mcp'],
      {
        cause: /ENOTFOUND|EAI_AGAIN/,
        place: /no-such-host\.invalid/,
        remedy: /hint .*(?:correct the host|the name itself)/,
      },
    ],
  ];
  for (const [words, held] of ADDED) {
    counted++;
    test(`trunkline add ${words.join(' ')}`, async () => {
      const { code, text } = await ask('add', ...words);
      assert.equal(code, 0, text);
      assertHelpful(words.join(' '), text, held);
    });
  }

  const LINE = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
  const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  const keyed = { ...LINE, authorization: `Bearer ${KEY}` };
  const BEARER = /send the key of an agent as \\?"Authorization: Bearer/;
  const REQUESTS: readonly (readonly [string, string, RequestInit, number, RegExp, RegExp, RegExp])[] = [
    ['no key', '/mcp', { headers: LINE }, 401, /no Authorization header/, /header/, BEARER],
    [
      'a wrong key',
      '/mcp',
      { headers: { ...LINE, authorization: 'Bearer wrong' } },
      401,
      /key is not known/,
      /this key/,
      /take one of \\?"agents/,
    ],
    ['no Bearer', '/mcp', { headers: { ...LINE, authorization: KEY } }, 401, /no Bearer token/, /header/, BEARER],
    ['the key in the address', `/mcp?key=${KEY}`, { headers: LINE }, 401, /no Authorization/, /header/, BEARER],
    ['a wrong path', '/mpc', { headers: keyed }, 404, /nothing at this path/, /this path/, /MCP is at \/mcp/],
    [
      'no such server',
      '/servers/god/mcp',
      { headers: keyed },
      404,
      /no server of this name/,
      /name/,
      /\/mcp has the tools/,
    ],
    [
      'no JSON',
      '/mcp',
      { headers: keyed, body: '{"jsonrpc"' },
      400,
      /Invalid JSON/,
      /member name/,
      /colon was expected/,
    ],
    [
      'a form',
      '/mcp',
      { headers: { ...keyed, 'content-type': 'text/plain' } },
      415,
      /unsupported_media_type/,
      /the body/,
      /must be application\/json/,
    ],
    ['no initialize', '/mcp', { headers: keyed }, 400, /is missing/, /Mcp-Session-Id/, /send initialize first/],
  ];
  for (const [mistake, path, init, status, cause, place, remedy] of REQUESTS) {
    counted++;
    test(`a client with ${mistake}`, async () => {
      const response = await fetch(url + path, { method: 'POST', body: PING, ...init });
      const answer = await response.text();
      assert.equal(response.status, status, answer);
      assertHelpful(mistake, answer, { cause, place, remedy });
    });
  }

  const RELOADS: readonly (readonly [
    mistake: string,
    text: (good: string) => string,
    cause: RegExp,
    remedy: RegExp,
  ])[] = [
    ['a broken file', (good) => good.slice(0, -4), /"?\}"? is missing/, /add one for each/],
    ['an empty file', () => '', /is empty/, /begin with/],
    ['an open listener', (good) => good.replace('{', '{"listen":{"host":"0.0.0.0"},'), /without .*TLS/, /127\.0\.0\.1/],
    ['a short key', (good) => good.replace(KEY, 'short'), /has 5 characters/, /openssl/],
  ];
  for (const [mistake, changed, cause, remedy] of RELOADS) {
    counted++;
    test(`a reload of ${mistake}`, async () => {
      write({ agents: { ada: { key: KEY, servers: ['good'] } } });
      const good = JSON.stringify({ ...config, agents: { ada: { key: KEY, servers: ['good'] } } }, null, 2);
      writeFileSync(join(cwd, 'trunkline.json'), changed(good));
      const end = performance.now() + 10_000;
      let text = '';
      do {
        await pause(50);
        text = (await ask('status')).text.split('not in force:')[1] ?? '';
      } while (!cause.test(text) && performance.now() < end);
      assertHelpful(mistake, text, { cause, place: /TL\d{4} +.*trunkline\.json/, remedy });
      assert.match((await ask('call', 'good.echo', 'text=on')).text, /^on$/m);
    });
  }

  test('after all of these mistakes the same process runs, and it serves', async () => {
    assert.equal(gateway.process.exitCode, null);
    assert.match((await ask('call', 'good.echo', 'text=alive')).text, /^alive$/m);
    for (const never of [/^\s+at .+:\d+:\d+\)?$/m, /internal error/i]) assert.doesNotMatch(gateway.err, never);
  });
});

/** Mistakes of servers whose definitions in the file are valid. */
function serverMistakes(
  network: MistakenNetwork,
  closedPort: number,
): readonly (readonly [name: string, definition: object, held: Omit<Held, 'place'> & { place?: RegExp }])[] {
  const { http } = network;
  const tls = { tls: { ca: 'ca.pem' } };
  const run = (script: string, more = {}) => ({ command: process.execPath, args: ['-e', script], ...more });
  const short = { startupTimeoutMs: 1500 };
  return [
    ['nocommand', { command: 'no-such-command' }, { cause: /is not on the PATH/, remedy: /install it/ }],
    ['nouv', { command: 'uvxx' }, { cause: /"uvxx" is not on the PATH/, remedy: /full path/ }],
    ['path', { command: './nothere/server' }, { cause: /does not exist/, remedy: /full path/ }],
    ['isfolder', { command: '/tmp' }, { cause: /is a folder/, place: /\/tmp/, remedy: /name the program/ }],
    ['forbidden', { command: './not-executable' }, { cause: /is not executable/, remedy: /chmod \+x/ }],
    ['shebang', { command: './script.sh' }, { cause: /interpreter in its first line/, remedy: /correct that line/ }],
    ['oneword', { command: 'npx -y "x y"' }, { cause: /no command "npx -y/, remedy: /into "args"/ }],
    ['nofolder', { command: 'node', cwd: './none' }, { cause: /working folder .*does not exist/, remedy: /create it/ }],
    ['exits', run('process.exit(0)'), { cause: /exited with code 0/, remedy: /no server or lacks an argument/ }],
    ['throws', run('throw new Error("NO_KEY is required")'), { cause: /NO_KEY is required/, remedy: /standard error/ }],
    ['silent', run('setInterval(() => {}, 999)', short), { cause: /did not start within/, remedy: /speaks no MCP/ }],
    ['toonew', run(NEW_REVISION), { cause: /unknown protocol revision 2099/, remedy: /another version of it/ }],
    [
      'runas',
      { command: 'node', runAs: { user: 'no-such-user' } },
      { cause: /no user|as root/, remedy: /"runAs"|user "no-such-user"/ },
    ],
    [
      'refused',
      { url: `http://127.0.0.1:${closedPort}/mcp` },
      { cause: /ECONNREFUSED/, remedy: /start the server there/ },
    ],
    ['nohost', { url: 'https://no-such-host.invalid/' }, { cause: /ENOTFOUND|EAI_AGAIN/, remedy: /host|network/ }],
    ['tlsonplain', { url: http.replace('http:', 'https:') }, { cause: /WRONG_VERSION/, remedy: /write http:\/\// }],
    [
      'plainontls',
      { url: network.selfSigned.replace('https:', 'http:') },
      { cause: /closed|400/, remedy: /https:\/\/|path/ },
    ],
    ['selfsigned', { url: network.selfSigned }, { cause: /certificate/, remedy: /tls\.ca/ }],
    ['othername', { url: network.otherName, ...tls }, { cause: /altnames|ALTNAME/i, remedy: /other names/ }],
    ['expired', { url: network.expired, ...tls }, { cause: /expired/, remedy: /renewed/ }],
    ['notyet', { url: network.notYet, ...tls }, { cause: /not yet valid/, remedy: /clock/ }],
    ['mutual', { url: network.mutual, ...tls }, { cause: /alert|certificate|closed|reset/i, remedy: /tls\.cert|log/ }],
    ['mail', { url: network.mail }, { cause: /HTTP|answer|status/i, remedy: /https:\/\/|port|url/ }],
    ['wrongpath', { url: `${http}/nope` }, { cause: /status 404/, remedy: /path of its url/ }],
    ['webpage', { url: `${http}/html` }, { cause: /text\/html/, remedy: /web page/ }],
    ['otherapi', { url: `${http}/json` }, { cause: /no JSON-RPC message/, remedy: /no MCP server/ }],
    ['empty', { url: `${http}/empty` }, { cause: /reply is empty/, remedy: /no MCP server/ }],
    ['crashes', { url: `${http}/500` }, { cause: /status 500: database is down/, remedy: /its own log/ }],
    ['moved', { url: `${http}/moved` }, { cause: /redirects are not followed/, remedy: /put the final URL/ }],
    ['hangs', { url: `${http}/hang`, ...short }, { cause: /did not start within/, remedy: /does not answer/ }],
    ['login', { url: `${http}/401` }, { cause: /asks for credentials/, remedy: /trunkline login login/ }],
    [
      'wrongtoken',
      { url: `${http}/401`, headers: { Authorization: 'Bearer abcdefgh' } },
      { cause: /asks for credentials/, remedy: /correct the Authorization header/ },
    ],
    ['forbiddenurl', { url: `${http}/403` }, { cause: /403|credentials/, remedy: /credentials|login/ }],
    [
      'noengine',
      { docker: { image: 'x', engine: 'unix:///none.sock' } },
      { cause: /no container engine/, remedy: /start it/ },
    ],
  ];
}

describe('mistakes of the machine', () => {
  const root = process.getuid?.() === 0;
  const user = root ? { uid: 65_534 } : {};
  const good = JSON.stringify({ mcpServers: { good: { command: process.execPath, args: [MANY_SIDED] } } });
  const place = (name: string, file = 'trunkline.json', text = good): string => {
    const cwd = join(folder, name);
    mkdirSync(cwd);
    writeFileSync(join(cwd, file), text);
    return cwd;
  };
  const start = async (mistake: string, cwd: string, words: readonly string[], held: Held, options = {}) => {
    const { code, out, err } = await trunkline([...words], { cwd, ...options });
    assertHelpful(mistake, err + out, held);
    assert.equal(code, 1, err + out);
  };
  const cases: Readonly<Record<string, () => Promise<void>>> = {
    async 'a file that this user may not read'() {
      const cwd = place('unreadable');
      chmodSync(join(cwd, 'trunkline.json'), 0o000);
      const held = { cause: /may not be read by this user/, place: /trunkline\.json/, remedy: /chmod/ };
      await start('unreadable', cwd, ['check', 'trunkline.json'], held, user);
    },
    async 'a data folder that this user may not write'() {
      const cwd = place('unwritable');
      mkdirSync(join(cwd, 'data'), { mode: 0o555 });
      const held = { cause: /this user may not write/, place: /unwritable\/data/, remedy: /--data-dir/ };
      await start('unwritable', cwd, [...PORTS, '--data-dir', join(cwd, 'data')], held, user);
    },
    async 'a data folder that is a file'() {
      const cwd = place('datafile');
      const held = { cause: /cannot be used/, place: /datafile\/trunkline\.json/, remedy: /name a folder/ };
      await start('datafile', cwd, [...PORTS, '--data-dir', join(cwd, 'trunkline.json')], held);
    },
    async 'a data folder that others may write'() {
      const cwd = place('shared');
      mkdirSync(join(cwd, 'data'));
      chmodSync(join(cwd, 'data'), 0o777);
      const held = { cause: /written by other users/, place: /shared\/data/, remedy: /chmod 700/ };
      await start('shared', cwd, [...PORTS, '--data-dir', join(cwd, 'data')], held);
    },
    async 'a port in use'() {
      const busy = createServer().listen(0, '127.0.0.1');
      await new Promise((done) => busy.once('listening', done));
      const { port } = busy.address() as AddressInfo;
      const cwd = place('busy');
      const held = {
        cause: /is in use/,
        place: new RegExp(`127\\.0\\.0\\.1:${port}`),
        remedy: /another port with --port/,
      };
      const words = ['--port', `${port}`, '--control-port', '0', '--data-dir', join(cwd, 'data')];
      await start('busy', cwd, words, held).finally(() => busy.close());
    },
    async 'an address of another machine'() {
      const cwd = place('address');
      const words = ['--host', '192.0.2.7', '--insecure', ...PORTS, '--data-dir', join(cwd, 'data')];
      const held = { cause: /not an address of this machine/, place: /192\.0\.2\.7/, remedy: /--host/ };
      await start('address', cwd, words, held);
    },
    async 'no file'() {
      const cwd = join(folder, 'nofile');
      mkdirSync(join(cwd, '.git'), { recursive: true });
      const held = { cause: /no configuration file/, place: /nofile/, remedy: /trunkline -- npx/ };
      await start('nofile', cwd, [...PORTS, '--data-dir', join(cwd, 'data')], held, { env: { HOME: cwd } });
    },
    async 'a Node that is too old'() {
      const old = `data:text/javascript,Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.19.0' } })`;
      const held = {
        cause: /needs Node\.js 22\.\d+ or newer/,
        place: /18\.19\.0/,
        remedy: /npm start|npx -y -p node@24/,
      };
      await start('old', place('old'), ['check'], held, { env: { NODE_OPTIONS: `--import "${old}"` } });
    },
  };
  for (const [mistake, tried] of Object.entries(cases)) {
    counted++;
    test(mistake, tried);
  }
});

test('there are at least a hundred mistakes', () => {
  assert.ok(counted >= 100, `${counted}`);
});
