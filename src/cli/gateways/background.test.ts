import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gatewayFolder } from '../../app/gateway-folders.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT } from '../exit-code.ts';
import { restartGateway, stop } from './background.ts';

/** A folder whose gateway in the background is this test: it counts requests, and refuses each or is silent. */
async function background(t: TestContext, words: readonly string[], isSilent = false) {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'trunkline-restart-')));
  let requests = 0;
  const server = createServer((_, response) => {
    requests++;
    if (isSilent) return;
    response.writeHead(400, { 'content-type': 'application/json' });
    response.end('{"error":{"code":"refused","message":"it stays"}}');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const file = join(home, 'trunkline.json');
  const dataDir = join(home, 'data');
  const folder = gatewayFolder(dataDir, { cwd: home, env: {} });
  assert.ok(folder.acquire());
  t.after(() => {
    folder.release();
    server.close();
    rmSync(home, { recursive: true });
  });
  folder.token('control.token', () => 't'.repeat(40));
  const controlUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  folder.publish({
    pid: 7,
    version: '1',
    mcpUrl: 'http://127.0.0.1:4270/mcp',
    controlUrl,
    files: [file],
    cwd: home,
    words,
    startedAt: 1,
  });
  /** A command line in a folder below. */
  const inputWith = (env: NodeJS.ProcessEnv): CommandInput => {
    const cwd = join(home, 'below');
    mkdirSync(cwd, { recursive: true });
    const ask = (): never => assert.fail('a process in the background cannot ask');
    const terminal = { out: () => {}, err: () => {}, env, cwd, version: '1', ask };
    return { file: undefined, serverCommand: [], flags: { dataDir }, terminal };
  };
  /** What the restart says with these variables while the file has this text; null: without a file. */
  const restart = async (text: string | null, env: NodeJS.ProcessEnv = {}) => {
    if (text !== null) writeFileSync(file, text);
    requests = 0;
    const { exitCode, message } = await failure(restartGateway(inputWith(env)));
    assert.equal(exitCode, EXIT.usage);
    return { said: message, requests };
  };
  return { dataDir, server, inputWith, restart };
}

async function failure(work: Promise<unknown>): Promise<CommandError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof CommandError, String(error));
  return error;
}

const GOOD = { mcpServers: { fs: { command: 'fs-server' } } };
const LEFT = /^the gateway at http:.* \(pid 7\) was left as it is: it would not start again\n/;

test('restart asks the gateway for nothing if the next one would not start', async (t) => {
  const { restart } = await background(t, ['--data-dir', 'data', '--port', '0', 'trunkline.json']);
  const keyed = { ...GOOD, agents: { writer: { key: '${WRITER_KEY}' } } };
  const asking = { ...GOOD, control: { token: '${input:control}' } };
  for (const [text, problem] of [
    ['{ "mcpServers": ', /^TL\d+ +.*trunkline\.json:1:/m],
    [JSON.stringify(keyed), /WRITER_KEY is not set/],
    [JSON.stringify(asking), /^TL1204 /m],
  ] as const) {
    const { said, requests } = await restart(text);
    assert.match(said, LEFT);
    assert.match(said, problem);
    assert.equal(requests, 0, said);
  }
  const variables = { WRITER_KEY: 'k'.repeat(40) };
  assert.deepEqual(await restart(JSON.stringify(keyed), variables), { said: 'it stays', requests: 1 });
});

test('restart accepts a port of the file that equals the usual control port, which the gateway does not have', async (t) => {
  const { restart } = await background(t, ['--data-dir', 'data', 'trunkline.json']);
  const file = JSON.stringify({ ...GOOD, listen: { port: 4271 } });
  assert.deepEqual(await restart(file), { said: 'it stays', requests: 1 });
});

test('restart checks the options and the command that the gateway was started with', async (t) => {
  const command = ['--env', 'A_TOKEN', '--', 'fs-server', '--port', 'x'];
  const { restart } = await background(t, ['--data-dir', 'data', '--host', '0.0.0.0', ...command]);
  const exposed = await restart('{', { A_TOKEN: 'a' });
  assert.match(exposed.said, LEFT);
  assert.match(exposed.said, /listening on 0\.0\.0\.0 without agents and TLS is refused/);
  assert.match((await restart('{')).said, /A_TOKEN is not set here/);
  assert.equal(exposed.requests, 0);
});

test('an option that this version does not have is refused before the end, too', async (t) => {
  const { restart } = await background(t, ['--data-dir', 'data', '--unknown']);
  const { said, requests } = await restart('{}');
  assert.match(said, LEFT);
  assert.match(said, /unknown option '--unknown'/);
  assert.equal(requests, 0);
});

test('a gateway without a file is restarted if servers were added to it', async (t) => {
  const { dataDir, restart } = await background(t, ['--data-dir', 'data']);
  assert.match((await restart(null)).said, /no configuration file here/);
  // A damaged store counts as one with servers.
  writeFileSync(join(dataDir, 'truth.db'), 'damaged', { mode: 0o600 });
  assert.deepEqual(await restart(null), { said: 'it stays', requests: 1 });
});

test('stop ends its request when its wait is over, and says that the gateway may still end', async (t) => {
  const { server, inputWith } = await background(t, [], true);
  const over = new AbortController();
  const timeout = t.mock.method(AbortSignal, 'timeout', () => over.signal);
  const stopped = failure(stop({ ...inputWith({}), now: false }));
  const request = await new Promise<IncomingMessage>((done) => server.once('request', done));
  const closed = new Promise((done) => request.socket.once('close', done));
  assert.deepEqual(timeout.mock.calls[0]?.arguments, [10_000]);
  over.abort();
  const { exitCode, message } = await stopped;
  assert.equal(exitCode, EXIT.unreachable);
  assert.match(message, /\(pid 7\) did not answer within 10 s; it has not ended, but may when it goes on; .*ps -p 7$/);
  await closed;
});
