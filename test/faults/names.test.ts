import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { type LookupAddress, lookup } from 'node:dns';
import { closeSync, mkdtempSync, open, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { HttpClientPort } from '../../src/http/client/client-port.ts';
import type { HttpFailure } from '../../src/http/client/http-failure.ts';
import { openHttpClient } from '../../src/http/client/open-http-client.ts';
import { Resolver } from '../../src/http/client/resolver.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { FaultBench, until } from './fault-bench.ts';
import { executed } from './ledger/ledger-entry.ts';
import { LedgerHttpProcess } from './ledger/ledger-process.ts';

const STUB = join(import.meta.dirname, 'stub-names.ts');

test('fault:F26 names that do not exist or do not resolve: NOT_SENT, reported in the status, neighbours go on', async (t) => {
  const bench = new FaultBench(t);
  const remote = await LedgerHttpProcess.start(bench.ledger('remote'), 'stateful');
  t.after(() => remote.kill());
  const names = join(bench.folder, 'names.json');
  const resolve = (map: Record<string, string | null>): void => writeFileSync(names, JSON.stringify(map));
  const asked = (name: string): number =>
    readFileSync(`${names}.asked`, 'utf8')
      .split('\n')
      .filter((each) => each === name).length;
  resolve({ 'good.test': '127.0.0.1', 'mute.test': null });
  const at = (name: string): Record<string, unknown> => ({ type: 'http', url: `http://${name}:${remote.port}/mcp` });
  await bench.start(
    { good: at('good.test'), gone: at('gone.test'), mute: at('mute.test') },
    {},
    { NODE_OPTIONS: `--import=${STUB}`, STUB_NAMES: names },
  );
  await bench.gateway.ready('good');
  const client = await bench.opened('one');
  // `mute` is still being looked up: its caller waits for that one look-up, and for nothing else.
  const before = asked('mute.test');
  const mute = client.call('mute__unsafe', {}, { own: 'unsafe' });
  const alone = await client.call('gone__unsafe', {}, { own: 'unsafe' });
  assert.equal(alone.ending, 'NOT_SENT', alone.reason);
  for (let i = 0; i < 20; i++) {
    const beside = await client.call('good__unsafe');
    assert.equal(beside.ending, 'RESULT', beside.reason);
  }
  const waited = await mute;
  assert.equal(waited.ending, 'NOT_SENT', waited.reason);
  assert.ok(asked('mute.test') - before <= 1);
  assert.ok(asked('good.test') < 10, `asked ${asked('good.test')} times`);
  const { state, reason } = await bench.status('gone');
  assert.match(`${state} ${reason}`, /^(?:failed|unreachable) .*ENOTFOUND/);
  assert.match(String((await bench.status('mute')).reason), /looking up mute\.test took too long/);
  // The name now exists: calls succeed without a restart of the gateway.
  resolve({ 'good.test': '127.0.0.1', 'gone.test': '127.0.0.1', 'mute.test': null });
  await bench.gateway.control('/api/v1/servers/gone/restart', 'POST');
  await until('the name exists', async () => (await client.call('gone__unsafe')).ending === 'RESULT');
  assert.equal(executed(bench.ledger('remote'), alone.call), 0);
  assert.deepEqual(bench.violations(['remote']), []);
});

/** The system's own look-up says so: no name under `.invalid` exists (RFC 6761). */
const NAMELESS = { url: 'https://no-such-host.invalid/mcp' };

test('fault:F26 the real look-up: a name that does not exist is a failed server of a gateway that runs, before and after `add`', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ good: bench.stdio('good'), plain: { url: 'http://no-such-host.invalid/mcp' }, tls: NAMELESS });
  const held = async (name: string): Promise<void> => {
    await until(name, async () => (await bench.status(name)).state === 'failed');
    assert.match(String((await bench.status(name)).reason), /ENOTFOUND no-such-host\.invalid/);
  };
  const cli = (...args: string[]) =>
    trunkline([...args, '--data-dir', join(bench.gateway.folder, 'data')], { cwd: bench.gateway.folder });
  await bench.gateway.ready('good');
  await Promise.all([held('plain'), held('tls')]);
  const added = await cli('add', 'typo', NAMELESS.url);
  assert.equal(added.code, 0, added.err);
  assert.match(added.out, /typo +.*ENOTFOUND/);
  const client = await bench.opened('one');
  assert.equal((await client.call('typo__unsafe')).ending, 'NOT_SENT');
  assert.equal((await client.call('good__unsafe')).ending, 'RESULT');
  // The added server is stored: the next start has it too.
  assert.equal(await bench.gateway.stop(), 0);
  await bench.start({ good: bench.stdio('good') });
  await bench.gateway.ready('good');
  await held('typo');
  const status = await cli('status');
  assert.deepEqual([status.err, status.code], ['', 4]);
  assert.match(status.out, /^1 of 2 servers ready/);
  assert.equal((await client.call('good__unsafe')).ending, 'RESULT');
  assert.equal(await bench.gateway.stop(), 0);
  const alone = await cli('status');
  // Gateways of other tests may run.
  assert.match(alone.err, /^(\nthese run:\n[\s\S]*)?$/);
  assert.equal(alone.code, 4);
  assert.match(alone.out, /^2 servers \(no gateway runs for .*\); start it with: trunkline/);
});

test('fault:F26 the real look-up: such a name ends neither `trunkline stdio` nor a program with a gateway inside', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-names-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'trunkline.json'), JSON.stringify({ mcpServers: { typo: NAMELESS } }));
  const bridge = startTrunkline(['stdio', '--data-dir', join(folder, 'data'), 'trunkline.json'], {
    cwd: folder,
    input: true,
  });
  t.after(() => bridge.process.kill());
  const ask = (method: string, params: object) =>
    bridge.process.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id: method, method, params })}\n`);
  const clientInfo = { name: 'names', version: '1' };
  ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
  await said(bridge, '"id":"initialize"');
  ask('tools/call', { name: 'typo__any', arguments: {} });
  await said(bridge, /"id":"tools\/call".*ENOTFOUND/);
  bridge.process.stdin!.end();
  assert.equal(await bridge.exited, 0, bridge.err);

  const program = `
    import { createGateway } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, '../../src/index.ts')).href)};
    const gateway = await createGateway({ servers: { typo: ${JSON.stringify(NAMELESS)} } });
    await gateway.callTool('typo__any', {}).catch(({ message }) => console.log(message));
    await gateway.close();`;
  const embedding = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, XDG_DATA_HOME: folder },
  });
  assert.equal(embedding.status, 0, embedding.stderr);
  assert.match(embedding.stdout, /ENOTFOUND no-such-host\.invalid/);
});

test('fault:F26 flaps: the last address serves up to 60 s past its time, then NOT_SENT; a new address takes over', async (t) => {
  const clock = new FakeClock();
  const first = await named('first', '127.0.0.1', 0, t);
  const { port } = first.address() as AddressInfo;
  // The whole of 127/8 is this machine on Linux only.
  const second = process.platform === 'linux' ? await named('second', '127.0.0.2', port, t) : null;
  let address: string | null = '127.0.0.1';
  let asked = 0;
  const resolver = new Resolver({
    clock,
    // Node itself answers: for an address with that address, for a name that does not exist with its own error.
    lookup: (_name, answer) => {
      asked++;
      lookup(address ?? 'flaps.invalid', { all: true }, answer);
    },
  });
  const client = openHttpClient(`http://flaps.test:${port}/`, { resolver, clock });
  t.after(() => client.close());
  assert.equal(await get(client), 'first');
  address = null;
  await clock.advance(6_000);
  assert.equal(await get(client), 'first');
  await clock.advance(58_000);
  assert.equal(await get(client), 'first');
  assert.equal(asked, 3);
  await clock.advance(6_000);
  const failure = (await get(client)) as HttpFailure;
  assert.deepEqual([failure.kind, failure.sent], ['dns', false]);
  assert.match(failure.message, /ENOTFOUND/);
  address = '127.0.0.1';
  assert.equal(await get(client), 'first');
  if (second === null) return;
  address = '127.0.0.2';
  await clock.advance(6_000);
  assert.equal(await get(client), 'second');
});

test('fault:F26 200 concurrent look-ups that block their threads do not delay the reading of a file', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-names-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const pipe = join(folder, 'pipe');
  try {
    execFileSync('mkfifo', [pipe]);
  } catch {
    t.skip('no mkfifo here');
    return;
  }
  let begun = 0;
  let ended = 0;
  // Opening a pipe without a writer blocks a thread of the pool, exactly as a look-up does.
  const blocked = (_name: string, answer: (error: null, addresses: LookupAddress[]) => void): void => {
    begun++;
    open(pipe, 'r', (error, file) => {
      assert.ifError(error);
      closeSync(file);
      ended++;
      answer(null, [{ address: '127.0.0.1', family: 4 }]);
    });
  };
  const resolver = new Resolver({ lookup: blocked, timeoutMs: 60_000 });
  const names = Array.from({ length: 200 }, (_, i) => `n${i}.test`);
  const all = Promise.all(
    names.map((name) => new Promise<number>((done) => resolver.resolve(name, (_, found) => done(found.length)))),
  );
  // This would wait for ever if all four threads of the pool of this process were blocked.
  assert.match(await readFile(import.meta.filename, 'utf8'), /fault:F26/);
  assert.deepEqual([begun, ended], [2, 0]);
  const writer = openSync(pipe, 'r+');
  assert.deepEqual(
    await all,
    names.map(() => 1),
  );
  closeSync(writer);
  assert.equal(begun, 200);
});

test('fault:F26 the gateway has 16 threads for blocking work', { skip: process.platform !== 'linux' }, async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  const { pid } = bench.gateway.process;
  const threads = readdirSync(`/proc/${pid}/task`).map((id) => readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8'));
  assert.equal(threads.filter((name) => name.startsWith('libuv-worker')).length, 16);
});

/** A server that answers with its name. It keeps no connection, so that every request has to find it. */
function named(name: string, host: string, port: number, t: TestContext): Promise<Server> {
  const server = createServer((_request, response) => {
    response.setHeader('connection', 'close').end(name);
  });
  t.after(() => server.close());
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(port, host, () => resolve(server));
  });
}

/** The body of the answer, or the reason why there is none. */
function get(client: HttpClientPort): Promise<string | HttpFailure> {
  return new Promise((resolve) => {
    let text = '';
    client.request(
      { method: 'GET', path: '/', headers: [], body: [] },
      {
        head: () => 'whole',
        data: (bytes) => {
          text = bytes.toString();
        },
        end: () => resolve(text),
        error: resolve,
      },
    );
  });
}
