import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import type { LookupAddress } from 'node:dns';
import { closeSync, mkdtempSync, open, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { HttpClientPort } from '../../src/http/client/client-port.ts';
import type { HttpFailure } from '../../src/http/client/http-failure.ts';
import { openHttpClient } from '../../src/http/client/open-http-client.ts';
import { Resolver } from '../../src/http/client/resolver.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { FaultBench, until } from './fault-bench.ts';
import { executed } from './ledger/ledger-entry.ts';
import { LedgerHttpProcess } from './ledger/ledger-process.ts';

const STUB = join(import.meta.dirname, 'stub-names.ts');

test('fault:F26 names that do not exist or are not answered for: NOT_SENT, told in the status, neighbours go on', async (t) => {
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
  // The name comes to be: calls succeed without a restart.
  resolve({ 'good.test': '127.0.0.1', 'gone.test': '127.0.0.1', 'mute.test': null });
  await bench.gateway.control('/api/v1/servers/gone/restart', 'POST');
  await until('the name is there', async () => (await client.call('gone__unsafe')).ending === 'RESULT');
  assert.equal(executed(bench.ledger('remote'), alone.call), 0);
  assert.deepEqual(bench.violations(['remote']), []);
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
    lookup: (name, answer) => {
      asked++;
      const found = address === null ? [] : [{ address, family: 4 }];
      const missing = Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: 'ENOTFOUND' });
      setImmediate(() => answer(address === null ? missing : null, found));
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
  assert.match(failure.message, /flaps\.test/);
  address = '127.0.0.1';
  assert.equal(await get(client), 'first');
  if (second === null) return;
  address = '127.0.0.2';
  await clock.advance(6_000);
  assert.equal(await get(client), 'second');
});

test('fault:F26 200 look-ups at once that block their threads do not delay the reading of a file', async (t) => {
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
  // To open a pipe that nobody writes to blocks a thread of the pool, exactly as a look-up does.
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
  // Were all four threads of the pool of this process blocked, this would wait for ever.
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

test('fault:F26 the gateway has 16 threads for what blocks', { skip: process.platform !== 'linux' }, async (t) => {
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

/** The body of what is there, or why there is none. */
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
