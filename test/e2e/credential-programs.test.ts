import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, type TestContext, test } from 'node:test';
import { KeyedServer } from '../fixtures/http/keyed.ts';
import type { Json } from '../support/raw-http.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

/** Records each request, and acts as `answer.json` currently defines. */
const PROGRAM = `
import { appendFileSync, readFileSync } from 'node:fs';
const folder = process.argv[2];
const input = readFileSync(0, 'utf8');
appendFileSync(folder + '/asked', input);
appendFileSync(folder + '/environment', JSON.stringify({ ...process.env, PID: process.pid }) + '\\n');
const { print, say = '', code = 0, flood = 0, hang = false } = JSON.parse(readFileSync(folder + '/answer.json', 'utf8'));
if (say !== '') console.error(say);
if (flood > 0) process.stdout.write('x'.repeat(flood));
if (print !== undefined) console.log(typeof print === 'string' ? print : JSON.stringify(print));
if (hang) setInterval(() => {}, 1000);
else process.exitCode = code;
`;

describe('credential programs', { timeout: 120_000 }, () => {
  let server: KeyedServer;
  let folder = '';
  before(async () => {
    server = await KeyedServer.start();
    folder = mkdtempSync(join(tmpdir(), 'trunkline-programs-'));
    writeFileSync(join(folder, 'program.mjs'), PROGRAM);
  });
  after(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    server.good.clear();
    server.seen.length = 0;
    for (const name of ['asked', 'environment']) rmSync(join(folder, name), { force: true });
  });

  const answer = (what: object) => writeFileSync(join(folder, 'answer.json'), JSON.stringify(what));
  const asked = (): Json[] =>
    existsSync(join(folder, 'asked'))
      ? readFileSync(join(folder, 'asked'), 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line))
      : [];
  const web = (more: object = {}) => ({
    type: 'http',
    url: server.url,
    auth: { exec: { command: process.execPath, args: [join(folder, 'program.mjs'), folder], ...more } },
  });
  const start = async (t: TestContext, more: object = {}, env: Record<string, string> = {}) => {
    const config = { mcpServers: { web: web(more) } };
    const gateway = await RunningGateway.start({ config, env, args: ['--log-level', 'debug'] });
    t.after(() => gateway.dispose());
    return gateway;
  };
  const echo = async (gateway: RunningGateway, text: string) =>
    (await WireClient.open(gateway.mcpUrl)).request('tools/call', { name: 'web__echo', arguments: { text } });
  const connections = (gateway: RunningGateway) =>
    trunkline(['connections', '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });

  test('check:I2 fault:F20 a token is asked for once, used until it is refused, and asked for once more by 16 refused calls', async (t) => {
    answer({ print: { token: 'canary-token-one' } });
    server.good.add('Bearer canary-token-one');
    const env = { K: '${CANARY}' };
    const gateway = await start(t, { env }, { CANARY: 'canary-of-the-program', OTHER_TOKEN: 'not-for-programs' });
    await gateway.ready('web');
    assert.deepEqual(asked(), [{ server: 'web', url: server.url }]);
    const environment = JSON.parse(readFileSync(join(folder, 'environment'), 'utf8'));
    assert.deepEqual([environment.K, environment.OTHER_TOKEN], ['canary-of-the-program', undefined]);
    assert.match((await connections(gateway)).out, /^web {2}connected {2}from its credential program\n$/);
    const client = await WireClient.open(gateway.mcpUrl);
    const call = (text: string) => client.request('tools/call', { name: 'web__echo', arguments: { text } });
    for (let i = 0; i < 3; i++) assert.equal((await call(`${i}`)).message.result.content[0].text, `${i}`);
    assert.equal(asked().length, 1);

    answer({ print: { headers: { Authorization: 'Bearer canary-token-two', 'X-More': 'canary-more' } } });
    server.good.clear();
    server.good.add('Bearer canary-token-two');
    const texts = Array.from({ length: 16 }, (_, at) => `call ${at}`);
    const answers = await Promise.all(texts.map(call));
    assert.deepEqual(
      answers.map(({ message }) => message.result?.content[0].text ?? JSON.stringify(message)),
      texts,
    );
    assert.equal(asked().length, 2);

    const shown = [
      JSON.stringify(await gateway.control<Json>('/api/v1/servers/web')),
      JSON.stringify(await gateway.control<Json>('/api/v1/credentials')),
      await gateway.metrics(),
      gateway.stderr,
    ].join('\n');
    for (const canary of ['canary-token', 'canary-of', 'canary-more']) assert.ok(!shown.includes(canary), canary);
  });

  test('a token is requested again before it expires, in the background', async (t) => {
    server.good.add('Bearer first');
    server.good.add('Bearer second');
    answer({ print: { token: 'first', expiresAt: new Date(Date.now() + 8_000).toISOString() } });
    const gateway = await start(t);
    await gateway.ready('web');
    answer({ print: { token: 'second' } });
    const end = Date.now() + 30_000;
    while (!server.seen.includes('Bearer second') && Date.now() < end) {
      assert.equal((await echo(gateway, 'x')).message.result.content[0].text, 'x');
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    assert.equal(asked().length, 2);
    assert.ok(!server.seen.includes(''), 'no request was without a token');
  });

  for (const [how, what, words] of [
    [
      'fails',
      { say: 'noise\nvault: permission denied, password=hunter2hunter2', code: 3 },
      /exited with code 3: vault: permission denied, password=\[redacted\]/,
    ],
    ['hangs', { hang: true }, /did not answer within 500 ms/],
    ['floods', { flood: 300 * 1024, hang: true }, /printed more than 256 KiB/],
    ['prints no JSON', { print: 'canary-token' }, /printed no JSON on its output/],
    ['prints nothing of use', { print: { tokens: 'canary-token' } }, /printed neither "headers" nor "token"/],
    ['prints a wire header', { print: { headers: { Host: 'canary-token' } } }, /it is set by the protocol itself/],
    ['prints a broken value', { print: { token: 'canary-token\r\nX: y' } }, /characters a header cannot carry/],
    ['prints an empty token', { print: { token: '' } }, /printed an empty "token"/],
    [
      'gives what has ended',
      { print: { token: 'canary-token', expiresAt: '2020-01-01T00:00:00Z' } },
      /gave a credential that has ended: see "expiresAt"/,
    ],
    ['prints no time', { print: { token: 'canary-token', expiresAt: 'soon' } }, /"expiresAt" that is no time/],
  ] as const) {
    test(`S3.5 a program that ${how} leaves its server without a credential, and the reason is shown`, async (t) => {
      answer(what);
      const gateway = await start(t, { timeoutMs: 500 + (how === 'hangs' ? 0 : 9_500) });
      const { reason } = await stateOf(gateway, 'auth_required');
      assert.match(reason, /asks for credentials; its credential program has none .* trunkline connections/);
      const { out } = await connections(gateway);
      assert.match(out, words);
      assert.doesNotMatch(out, /trunkline login/);
      assert.doesNotMatch(
        out + gateway.stderr + JSON.stringify(await gateway.control<Json>('/api/v1/credentials')),
        /canary-token|hunter2/,
      );
      const { message } = await echo(gateway, 'x');
      assert.match(JSON.stringify(message), /its credential program has none/);
    });
  }

  test('the reason names a program that does not exist or may not be run', async (t) => {
    for (const [command, words] of [
      ['trunkline-no-such-program', /program trunkline-no-such-program was not found; correct "command" or PATH/],
      [join(folder, 'program.mjs'), /may not be executed by the user of the gateway: chmod \+x \/.*program\.mjs/],
    ] as const) {
      const gateway = await start(t, { command });
      await stateOf(gateway, 'auth_required');
      assert.match((await connections(gateway)).out, words);
    }
  });

  test('fault:F20 a server connects by itself when its program gives a credential that it accepts', async (t) => {
    server.good.add('Bearer right');
    answer({ print: { token: 'wrong' } });
    const gateway = await start(t);
    await stateOf(gateway, 'auth_required');
    assert.match(
      (await connections(gateway)).out,
      /^web {2}failed {2}the server does not take what its credential program gives\n/,
    );
    answer({ print: { token: 'right' } });
    await gateway.ready('web');
    assert.match((await connections(gateway)).out, /^web {2}connected/);
  });

  test('a program that hangs ends when its gateway is killed', async (t) => {
    answer({ hang: true });
    const gateway = await start(t, { timeoutMs: 60_000 });
    for (
      const end = Date.now() + 20_000;
      !existsSync(join(folder, 'environment'));
      await new Promise((done) => setTimeout(done, 20))
    ) {
      assert.ok(Date.now() < end, gateway.stderr);
    }
    const { PID } = JSON.parse(readFileSync(join(folder, 'environment'), 'utf8'));
    assert.ok(processIsThere(PID));
    gateway.process.kill('SIGKILL');
    for (const end = Date.now() + 20_000; processIsThere(PID); await new Promise((done) => setTimeout(done, 20))) {
      assert.ok(Date.now() < end, 'the program still runs');
    }
  });

  test('security:8 check:I7 adding a program requires the right to run commands, and keys that contradict it are refused', async (t) => {
    answer({ print: { token: 'x' } });
    const gateway = await start(t);
    const definition = JSON.stringify({ name: 'more', ...web(), url: 'https://mcp.example.com/mcp' });
    await assert.rejects(gateway.control('/api/v1/servers', 'POST', definition), /403 .*runs the command/);
    const { code, err } = await trunkline(['login', 'web', '--data-dir', join(gateway.folder, 'data')], {
      cwd: gateway.folder,
    });
    assert.equal(code, 1);
    assert.match(err, /its definition names a credential program/);
    const wrong = [
      { ...web(), headers: { authorization: 'x' } },
      { type: 'http', url: server.url, auth: { clientId: 'c', exec: { command: 'x' } } },
    ];
    writeFileSync(join(gateway.folder, 'other.json'), JSON.stringify({ mcpServers: { a: wrong[0], b: wrong[1] } }));
    const checked = await trunkline(['check', 'other.json'], { cwd: gateway.folder });
    assert.deepEqual(checked.err.match(/TL\d+/g), ['TL1311', 'TL1311'], checked.err);
  });
});

async function stateOf(gateway: RunningGateway, wanted: string): Promise<Json> {
  for (const end = Date.now() + 30_000; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const status = await gateway.control<Json>('/api/v1/servers/web');
    if (status.state === wanted) return status;
    assert.ok(Date.now() < end, JSON.stringify(status));
  }
}

function processIsThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
