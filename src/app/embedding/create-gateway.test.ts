import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { textResult, textServer, tool } from '../../../test/support/text-server.ts';
import { ConfigError, createGateway, memoryMessengers, OpenError, openNode } from '../../index.ts';
import { systemClock } from '../../model/clock.ts';
import { SqliteRunTimeStore } from '../../store/run-time-store/sqlite-run-time-store.ts';
import { Logger } from '../../telemetry/logger.ts';

const STDIO_SERVER = resolve(import.meta.dirname, '../../../test/fixtures/conformance/stdio.ts');
const folder = mkdtempSync(join(tmpdir(), 'trunkline-embed-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const plain = () => textServer({ tools: () => [tool('t')], call: () => textResult('hello') });

test('S2.22 check:A1 servers of files, of a configuration object and of options run side by side', async () => {
  writeFileSync(join(folder, 'a.json'), JSON.stringify({ mcpServers: { file: { command: 'x', disabled: true } } }));
  await using gateway = await createGateway({
    config: { servers: { object: { url: 'http://127.0.0.1:9/mcp', start: 'lazy' } }, firstListWaitMs: 100 },
    servers: { local: { command: process.execPath, args: [STDIO_SERVER, 'stateful'], start: 'lazy' }, memory: plain() },
  });
  await using other = await createGateway({ config: ['a.json'], cwd: folder });
  const shape = gateway
    .servers()
    .map(({ name, transport, compat }) => [name, transport, compat.external, compat.localProcess]);
  assert.deepEqual(shape, [
    ['local', 'stdio', false, true],
    ['memory', 'memory', false, false],
    ['object', 'http', true, false],
  ]);
  assert.deepEqual(
    other.servers().map(({ name, state }) => [name, state]),
    [['file', 'suspended']],
  );
});

test('S2.11 the tools of a server that declares no capability at all are listed and called', async () => {
  const forgetful = textServer({ capabilities: '{}', tools: () => [tool('t')], call: () => textResult('hello') });
  await using gateway = await createGateway({ servers: { forgetful } });
  await gateway.ready();
  assert.deepEqual(
    (await gateway.handleToolsList()).tools.map(({ name }) => name),
    ['forgetful__t'],
  );
  assert.equal((await gateway.callTool('forgetful__t')).content[0]?.text, 'hello');
});

test('a wrong configuration is refused with all its problems, each with its position', async () => {
  const options = {
    config: { servers: { a: { url: 'nonsense' } }, sesions: {} } as object,
    servers: { b: { command: 'x', timeoutMs: -1 }, c: plain() },
  };
  await assert.rejects(createGateway(options), (error: unknown) => {
    assert.ok(error instanceof ConfigError);
    assert.deepEqual(
      new Set(error.problems.map(({ file }) => file)),
      new Set(['<createGateway config>', '<createGateway>']),
    );
    assert.ok(error.problems.every(({ line, fix }) => line > 0 && fix !== ''));
    assert.ok(error.problems.length >= 3);
    assert.match(error.message, /<createGateway config>:\d+:\d+ .*sesions/);
    assert.match(error.message, /<createGateway>:\d+:\d+ .*timeoutMs/);
    return true;
  });
  await assert.rejects(createGateway({ servers: { 'bad name': plain() } }), { code: 'INVALID_PARAMS' });
  await assert.rejects(createGateway({ config: 'none.json', cwd: folder }), /TL1001/);
});

test('the gateway searches no file and stores nothing unless asked', async () => {
  writeFileSync(join(folder, 'trunkline.json'), '{"servers":{"found":{"command":"x"}}}');
  await using gateway = await createGateway({ cwd: folder });
  assert.deepEqual(gateway.servers(), []);
});

test('a data folder has one gateway at a time, and keeps what servers list', async () => {
  const dataDir = join(folder, 'data');
  const definition = { command: process.execPath, args: [STDIO_SERVER, 'stateful'], start: 'lazy' } as const;
  {
    await using gateway = await createGateway({ dataDir, servers: { known: definition } });
    await assert.rejects(createGateway({ dataDir }), (error: unknown) => {
      assert.ok(error instanceof OpenError);
      assert.equal(error.reason, 'held');
      return true;
    });
    await gateway.client('known')!.initialize();
    assert.ok(gateway.client('known')!.tools.length > 0);
  }
  await using again = await createGateway({ dataDir, servers: { known: definition } });
  assert.equal(again.server('known')?.catalogFromStore, true);
  assert.ok((await again.tools()).length > 0);
  assert.equal(again.server('known')?.state, 'unknown');
});

test('S2.27 a configured server can be removed, stays removed over a reload, and can be replaced', async () => {
  const file = join(folder, 'live.json');
  const written = (names: readonly string[]) =>
    writeFileSync(
      file,
      JSON.stringify({ servers: Object.fromEntries(names.map((n) => [n, { command: 'x', start: 'lazy' }])) }),
    );
  written(['one', 'two']);
  await using gateway = await createGateway({ config: file });
  const names = () => gateway.servers().map(({ name }) => name);
  assert.equal(await gateway.unregisterServer('one'), true);
  await gateway.registerServer('mine', plain());
  assert.deepEqual(names(), ['mine', 'two']);
  written(['one', 'two', 'three']);
  assert.equal(await gateway.reload(), true);
  assert.deepEqual(names(), ['mine', 'three', 'two']);
  writeFileSync(file, '{"servers":');
  assert.equal(await gateway.reload(), false);
  assert.deepEqual(names(), ['mine', 'three', 'two']);
  assert.equal((await gateway.registerServer('one', plain())).state, 'running');
  assert.deepEqual(
    gateway.router.clients().map(({ name }) => name),
    ['mine', 'one', 'three', 'two'],
  );
});

test('secrets of definitions never reach the log', async () => {
  const lines: string[] = [];
  const secret = 'canary-5f1d9c-secret';
  await using gateway = await createGateway({
    logger: (entry) => lines.push(JSON.stringify(entry)),
    logLevel: 'debug',
  });
  const status = await gateway.registerServer('remote', {
    url: 'http://127.0.0.1:9/mcp',
    headers: { Authorization: `Bearer ${secret}` },
  });
  assert.equal(status.initialized, false);
  await assert.rejects(gateway.callTool({ server: 'remote', tool: 'x' }));
  assert.ok(lines.length > 0);
  assert.doesNotMatch(lines.join('\n') + JSON.stringify(gateway.servers()), new RegExp(secret));
});

test('check:A10 one server with mistakes is misconfigured and the others run; strict refuses the whole', async () => {
  const options = { env: {}, servers: { gh: { command: 'x', env: { T: '${NOT_SET}' } }, c: plain() } };
  await using gateway = await createGateway(options);
  const [good] = await gateway.tools();
  assert.equal(good?.name, 'c__t');
  const gh = gateway.server('gh');
  assert.equal(gh?.state, 'misconfigured');
  assert.match(gh?.reason ?? '', /NOT_SET is not set/);
  await assert.rejects(gateway.callTool({ server: 'gh', tool: 'x' }), {
    code: 'NOT_SENT',
    message: /gh is misconfigured: /,
  });
  await assert.rejects(createGateway({ ...options, strict: true }), ConfigError);
});

test('a gateway or node that does not open leaves no file open', { skip: process.platform !== 'linux' }, async () => {
  const dataDir = join(folder, 'damaged');
  await (await createGateway({ dataDir })).close();
  const store = new SqliteRunTimeStore({
    path: join(dataDir, 'truth.db'),
    clock: systemClock,
    logger: Logger.silent(),
  });
  await store.apply([{ kind: 'put', collection: 'pins', key: 's/tools/a', value: 'nonsense' }]);
  await store.close();
  const openFiles = () =>
    readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).startsWith(dataDir);
      } catch {
        return false;
      }
    });
  assert.deepEqual(openFiles(), []);
  await assert.rejects(createGateway({ dataDir }), { name: 'OpenError', reason: 'truth' });
  assert.deepEqual(openFiles(), []);
  const ofProgram = { list: () => ({ servers: [], next: null }) };
  await assert.rejects(openNode({ store: ofProgram, messenger: memoryMessengers()(), dataDir }), SyntaxError);
  assert.deepEqual(openFiles(), []);
});
