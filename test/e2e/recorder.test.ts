import assert from 'node:assert/strict';
import { appendFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as SseV1 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { until } from '../support/cluster-processes.ts';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { runProgram } from '../support/run-program.ts';
import { startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');
const CANARY = 'canary-of-the-recorder-test-4711';
const CHANGED = { CHANGED: '1' };
/** Beyond 2^53, and not in the shortest form. */
const DIGITS = '{"name":"echo","arguments":{"text":"hello","n":12345678901234567890,"x":1.0}}';

interface View {
  readonly id: string;
  readonly state: string;
  readonly reason: string | null;
  readonly entries: number;
  readonly bytes: number;
  readonly sessions: readonly string[];
  readonly servers: readonly string[];
}
interface Replay {
  readonly replayed: number;
  readonly skipped: readonly string[];
  readonly differences: readonly { step: number; request: string; path: string; before: string; after: string }[];
}

describe('recordings of both wires', { timeout: 170_000 }, () => {
  let gateway: RunningGateway;
  before(async () => {
    gateway = await RunningGateway.start({
      config: {
        mcpServers: {
          ...FOUR_SERVERS.mcpServers,
          many: manySided('many', { SECRET: CANARY }),
          'many-changed': manySided('many', { SECRET: CANARY, ...CHANGED }, { drift: 'off' }),
          'many-lists': manySided('many', { SECRET: CANARY, CHANGED: 'lists' }),
          modern: manySided('modern', { ERA: 'stateless' }),
          'modern-changed': manySided('modern', { ERA: 'stateless', ...CHANGED }),
        },
      },
    });
    await gateway.ready();
  });
  after(() => gateway.dispose());

  const start = (target: object): Promise<View> =>
    gateway.control('/api/v1/recordings', 'POST', JSON.stringify(target));
  const stop = async (id: string): Promise<{ view: View; jsonl: string; entries: Json[] }> => {
    const view = await gateway.control<View>(`/api/v1/recordings/${id}/stop`, 'POST');
    const { jsonl } = await gateway.control<{ jsonl: string }>(`/api/v1/recordings/${id}`);
    const lines = jsonl.split('\n').slice(0, -1);
    return { view, jsonl, entries: lines.map((line) => JSON.parse(line)).filter(({ seq }) => seq !== undefined) };
  };
  const replay = (recording: string, server: string, more: object = {}): Promise<Replay> =>
    gateway.control('/api/v1/replays', 'POST', JSON.stringify({ recording, server, ...more }));

  async function callMany(client: ClientV1): Promise<void> {
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { colour: 'green' } }));
    const { tools } = await client.listTools();
    const prefix = tools.some(({ name }) => name === 'many__echo') ? 'many__' : '';
    await client.callTool({ name: `${prefix}echo`, arguments: { text: 'hello' } });
    await client.callTool({ name: `${prefix}ask`, arguments: { message: 'Which colour?' } });
    await client.callTool({ name: `${prefix}count`, arguments: {} });
    await client.callTool({ name: `${prefix}fail`, arguments: {} });
  }
  const v1 = (name: string) =>
    new ClientV1({ name, version: '1' }, { capabilities: { elicitation: {}, roots: {} } as never });

  for (const [where, open] of [
    ['the endpoint of one server', () => new HttpV1(new URL(gateway.serverUrl('many')))],
    ['the endpoint of all servers', () => new HttpV1(new URL(gateway.mcpUrl))],
    ['HTTP+SSE', () => new SseV1(new URL(gateway.serverUrl('many').replace(/mcp$/, 'sse')))],
  ] as const) {
    test(`SDK v1 at ${where}: both wires, no difference from the same server, exactly the change from another`, async () => {
      const name = `v1 ${where}`;
      const { id } = await start({ client: name });
      const client = v1(name);
      await client.connect(open() as never);
      await callMany(client);
      await client.close();
      const { view, entries } = await stop(id);
      assert.deepEqual(view.servers, ['many']);
      assert.equal(view.sessions.length, 1);
      const sides = new Set(entries.map(({ wire, from }) => `${wire} ${from}`));
      assert.deepEqual([...sides].sort(), ['client client', 'client gateway', 'server gateway', 'server server']);
      const call = entries.filter(({ message }) => message.params?.arguments?.text === 'hello');
      assert.deepEqual(
        call.map(({ wire, message }) => [wire, message.params.name.replace('many__', '')]),
        [
          ['client', 'echo'],
          ['server', 'echo'],
        ],
      );
      assert.equal(call[0]!['exchange'], call[1]!['exchange']);
      const same = await replay(id, 'many');
      assert.deepEqual(same.differences, []);
      assert.ok(same.replayed >= 5, JSON.stringify(same));
      const { differences } = await replay(id, 'many-changed');
      assert.deepEqual(
        differences.map(({ request, path, before, after }) => [request, path, before, after]),
        [
          ['tools/list', '$.result.tools["echo"].description', null, '"In capitals."'],
          ['tools/call echo', '$.result.content[0].text', '"hello"', '"HELLO"'],
        ],
      );
      const ignore = ['$.result.content[*].text', '$.result.tools'];
      assert.deepEqual((await replay(id, 'many-changed', { ignore })).differences, []);
    });
  }

  test('all lists of a client at the endpoint of all servers are compared', async () => {
    const { id } = await start({ client: 'lister' });
    const client = v1('lister');
    await client.connect(new HttpV1(new URL(gateway.mcpUrl)) as never);
    await client.listTools();
    await client.listPrompts();
    await client.listResources();
    await client.listResourceTemplates();
    await client.close();
    await stop(id);
    const places = async (server: string): Promise<string[]> => {
      const { differences } = await replay(id, server, { of: 'many' });
      return differences.map(({ request, path, after }) => `${request} ${path} ${after}`);
    };
    assert.deepEqual(await places('many'), []);
    assert.deepEqual(await places('many-lists'), [
      'tools/list $.result.tools["echo"].description "In capitals."',
      'prompts/list $.result.prompts["greet"].description "Another one."',
      'resources/list $.result.resources["doc"].description "Another one."',
      'resources/templates/list $.result.resourceTemplates["items"].description "Another one."',
    ]);
  });

  test('a client of trunkline stdio: both wires, no difference, and exactly the change', async (t) => {
    const cwd = gateway.folder;
    const { id } = await start({ client: 'by-pipe' });
    const args = [BIN, 'stdio', join(cwd, 'trunkline.json'), '--data-dir', join(cwd, 'data')];
    const client = v1('by-pipe');
    t.after(() => client.close());
    await client.connect(new StdioV1({ command: process.execPath, args, stderr: 'inherit' }) as never);
    await callMany(client);
    await client.close();
    const { entries } = await stop(id);
    const sides = new Set(entries.map(({ wire, from }) => `${wire} ${from}`));
    assert.deepEqual([...sides].sort(), ['client client', 'client gateway', 'server gateway', 'server server']);
    assert.deepEqual((await replay(id, 'many')).differences, []);
    const { differences } = await replay(id, 'many-changed');
    assert.deepEqual(
      differences.map(({ path }) => path),
      ['$.result.tools["echo"].description', '$.result.content[0].text'],
    );
    await gateway.control(`/api/v1/recordings/${id}`, 'DELETE');
  });

  for (const mode of ['legacy', 'auto'] as const) {
    for (const server of ['many', 'modern']) {
      test(`SDK v2, ${mode}, on ${server}: no difference, and exactly the change`, async () => {
        const name = `v2 ${mode} ${server}`;
        const { id } = await start({ client: name });
        const client = new Client({ name, version: '1' }, { versionNegotiation: { mode } });
        await client.connect(new StreamableHTTPClientTransport(new URL(gateway.serverUrl(server))));
        await client.listTools();
        await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
        await client.close();
        const { view } = await stop(id);
        assert.equal(view.sessions.length, 1);
        assert.deepEqual((await replay(id, server)).differences, []);
        const { differences } = await replay(id, `${server}-changed`);
        assert.deepEqual(
          differences.map(({ path }) => path),
          ['$.result.tools["echo"].description', '$.result.content[0].text'],
        );
      });
    }
  }

  test('a recording keeps the bytes, masks secrets, leaves out headers, and obeys its limits', async () => {
    const { id } = await start({ server: 'many' });
    const name = 'exact';
    const client = v1(name);
    await client.connect(new HttpV1(new URL(gateway.serverUrl('many'))) as never);
    const session = (client.transport as unknown as HttpV1).sessionId!;
    const raw = await fetch(gateway.serverUrl('many'), {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-session-id': session,
        authorization: 'Bearer header-canary',
      },
      body: `{"jsonrpc":"2.0","id":"x",\n"method":"tools/call","params":${DIGITS}}`,
    });
    assert.equal(raw.status, 200);
    await raw.text();
    await client.callTool({ name: 'environment', arguments: { name: 'SECRET' } });
    await client.close();
    const { jsonl, view } = await stop(id);
    assert.ok(jsonl.split(DIGITS).length === 3, 'on both wires, to the digit');
    for (const gone of [CANARY, Buffer.from(CANARY).toString('base64'), 'header-canary', session]) {
      assert.ok(!jsonl.includes(gone), gone);
    }
    const file = join(gateway.folder, 'data/recordings', `${id}.jsonl`);
    assert.equal(readFileSync(file, 'utf8'), jsonl);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(view.bytes, statSync(file).size);

    const small = await start({ server: 'many', maxEntries: 4 });
    const again = v1(name);
    await again.connect(new HttpV1(new URL(gateway.serverUrl('many'))) as never);
    await again.listTools();
    await again.close();
    const full = await stop(small.id);
    assert.deepEqual([full.view.state, full.view.entries], ['stopped', 4]);
    assert.match(full.view.reason!, /4 entries/);
    const bytes = await start({ server: 'many', maxBytes: 1_000 });
    const third = v1(name);
    await third.connect(new HttpV1(new URL(gateway.serverUrl('many'))) as never);
    await third.listTools();
    await third.close();
    const tight = await stop(bytes.id);
    assert.ok(tight.view.bytes <= 1_100, `${tight.view.bytes}`);
    assert.match(tight.view.reason!, /1000 bytes/);
    for (const { id: old } of (await gateway.control<{ recordings: View[] }>('/api/v1/recordings')).recordings) {
      await gateway.control(`/api/v1/recordings/${old}`, 'DELETE');
    }
    assert.deepEqual(readdirSync(join(gateway.folder, 'data/recordings')), []);
  });

  test('a recording of one session has only that session, and ends with it', async () => {
    const chosen = v1('chosen');
    const other = v1('other');
    for (const client of [chosen, other]) {
      await client.connect(new HttpV1(new URL(gateway.serverUrl('many'))) as never);
    }
    const { sessions } = await gateway.control<{ sessions: { label: string; clientInfo: { name: string } }[] }>(
      '/api/v1/sessions',
    );
    const { label } = sessions.find(({ clientInfo }) => clientInfo?.name === 'chosen')!;
    const { id } = await start({ session: label });
    await chosen.callTool({ name: 'echo', arguments: { text: 'mine' } });
    await other.callTool({ name: 'echo', arguments: { text: 'theirs' } });
    await (chosen.transport as unknown as HttpV1).terminateSession();
    const { recordings } = await gateway.control<{ recordings: View[] }>('/api/v1/recordings');
    assert.deepEqual(
      recordings.map(({ state, reason }) => [state, reason]),
      [['stopped', 'the session ended']],
    );
    const { entries, jsonl } = await stop(id);
    assert.ok(jsonl.includes('mine') && !jsonl.includes('theirs'));
    assert.ok(entries.every(({ session }) => session === label));
    assert.deepEqual((await replay(id, 'many')).differences, []);
    await chosen.close();
    await other.close();
    await gateway.control(`/api/v1/recordings/${id}`, 'DELETE');
  });

  test('a replay ends when its caller goes away', async () => {
    const { id } = await start({ client: 'sleeper' });
    const client = v1('sleeper');
    await client.connect(new HttpV1(new URL(gateway.serverUrl('many'))) as never);
    const sleep = (): Promise<unknown> => client.callTool({ name: 'sleep', arguments: { ms: 600 } });
    for (let i = 0; i < 4; i++) await sleep();
    await stop(id);
    const made = async (): Promise<number> => {
      const { calls } = await gateway.control<{ calls: Json[] }>('/api/v1/calls?filter=tool:sleep');
      return calls.length;
    };
    const inFlight = async (): Promise<number> =>
      (await gateway.control<Json>('/api/v1/servers/many')).connections.reduce(
        (sum: number, one: Json) => sum + one.inFlight,
        0,
      );
    const before = await made();
    const token = gateway.token('control');
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ recording: id, server: 'many' });
    const caller = request(`${gateway.controlUrl}/api/v1/replays`, { method: 'POST', headers }).on('error', () => {});
    caller.end(body);
    await until(async () => (await inFlight()) > 0, 'the replay to call');
    caller.destroy();
    await until(async () => (await inFlight()) === 0, 'the call to end');
    for (let i = 0; i < 4; i++) await sleep();
    assert.equal(await made(), before + 1 + 4);
    await client.close();
    await gateway.control(`/api/v1/recordings/${id}`, 'DELETE');
  });

  test('bad requests are refused with advice', async () => {
    const refused = async (path: string, body: object): Promise<string> =>
      gateway.control(path, 'POST', JSON.stringify(body)).then(
        () => 'taken',
        (error: Error) => error.message,
      );
    assert.match(await refused('/api/v1/recordings', {}), /400.*name a session/);
    assert.match(await refused('/api/v1/recordings', { session: 'nothing' }), /404.*session_unknown/);
    assert.match(await refused('/api/v1/recordings', { server: 'mani' }), /404.*did you mean \\"many\\"/);
    assert.match(await refused('/api/v1/recordings', { client: 'x', maxEntries: 0.5 }), /400.*whole number/);
    assert.match(await refused('/api/v1/replays', { server: 'many', recording: 'none' }), /404.*recording_unknown/);
    assert.match(await refused('/api/v1/replays', { server: 'many', jsonl: 'x' }), /400.*no recording/);
  });

  test('the commands record until Ctrl-C, replay with exit codes 0 and 1, and write a test that runs', async () => {
    const cwd = gateway.folder;
    const data = ['--data-dir', join(cwd, 'data')];
    const recording = startTrunkline(['record', '--client', 'by-command', '-o', 'session.jsonl', ...data], { cwd });
    while (!recording.err.includes('Ctrl-C')) await new Promise((done) => setTimeout(done, 20));
    const client = v1('by-command');
    await client.connect(new HttpV1(new URL(gateway.mcpUrl)) as never);
    await callMany(client);
    const listed = await trunkline(['record', 'list', ...data], { cwd });
    assert.match(listed.out, /recording {2}by-command {2}many/);
    recording.process.kill('SIGINT');
    assert.equal(await recording.exited, 0, recording.err);
    assert.match(recording.err, /messages of many/);
    await client.close();
    const kept = await start({ client: 'never-comes' });
    const stopped = await trunkline(['record', 'stop', kept.id, ...data], { cwd });
    assert.match(stopped.out, new RegExp(`^${kept.id} {2}stopped \\(it was stopped\\)`), stopped.err);
    const removed = await trunkline(['record', 'delete', kept.id, ...data], { cwd });
    assert.equal(removed.out, `removed ${kept.id}\n`, removed.err);
    assert.ok(!(await trunkline(['record', 'list', ...data], { cwd })).out.includes(kept.id));
    const command = `${process.execPath} ${MANY_SIDED}`;
    const same = await trunkline(['replay', 'session.jsonl', '--server', 'many', ...data], { cwd });
    assert.deepEqual([same.code, /no difference/.test(same.out)], [0, true], same.out + same.err);
    const changed = await trunkline(['replay', 'session.jsonl', '--server', 'many-changed', ...data], { cwd });
    assert.equal(changed.code, 1, changed.out + changed.err);
    assert.match(changed.out, /2 differences/);
    assert.match(changed.out, /tools\/call echo\n {2}\$\.result\.content\[0\]\.text\n.*- "hello".*\n.*\+ "HELLO"/);
    const other = { cwd, env: { NAME: 'many' } };
    const alone = await trunkline(['replay', 'session.jsonl', '--command', command], other);
    assert.equal(alone.code, 0, alone.out + alone.err);
    for (const [args, code, text] of [
      [['--command', 'no-such-program x'], 4, /cannot be replayed against: .*no-such-program/],
      [['--url', 'http://127.0.0.1:1/mcp'], 4, /cannot be replayed against: /],
      [['--command', 'node "a'], 1, /--command has an open quotation mark: node "a/],
      [['--command', command, '--test', 'nowhere/a.test.mjs'], 1, /nowhere\/a\.test\.mjs cannot be written/],
    ] as const) {
      const ended = await trunkline(['replay', 'session.jsonl', ...args], other);
      assert.deepEqual([ended.code, text.test(ended.err)], [code, true], ended.out + ended.err);
    }

    const file = join(resolve(import.meta.dirname, '../..'), `.recorded-${process.pid}.test.mjs`);
    try {
      const wrote = await trunkline(['replay', 'session.jsonl', '--command', command, '--test', file], { cwd });
      assert.equal(wrote.code, 0, wrote.err);
      const run = (env: NodeJS.ProcessEnv) => runProgram([process.execPath, '--test', file], { env });
      const good = await run({ ...process.env, NODE_TEST_CONTEXT: undefined });
      assert.equal(good.code, 0, good.out + good.err);
      assert.match(good.out, /tools\/call ask/);
      writeFileSync(
        file,
        readFileSync(file, 'utf8').replace(/"text": "hello"(?=\s+\}\s+\]\s+\}\s+\})/, '"text": "other"'),
      );
      const bad = await run({ ...process.env, NODE_TEST_CONTEXT: undefined });
      assert.equal(bad.code, 1, bad.out);
    } finally {
      rmSync(file, { force: true });
    }
  });
});

test('a killed gateway leaves a recording that the next one lists and replays', { timeout: 60_000 }, async () => {
  const config = { mcpServers: { many: manySided('many') } };
  const first = await RunningGateway.start({ config });
  const { id } = await first.control<View>('/api/v1/recordings', 'POST', '{"server":"many"}');
  const client = new ClientV1({ name: 'killed', version: '1' });
  await client.connect(new HttpV1(new URL(first.serverUrl('many'))) as never);
  await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
  await first.stop('SIGKILL');
  await client.close();
  appendFileSync(join(first.folder, 'data/recordings', `${id}.jsonl`), '{"seq":99,"wi');
  const second = await RunningGateway.start({ config, folder: first.folder });
  try {
    await second.ready();
    const { recordings } = await second.control<{ recordings: View[] }>('/api/v1/recordings');
    assert.deepEqual(
      recordings.map(({ state, reason, servers }) => [state, reason, servers]),
      [['stopped', 'the gateway ended', ['many']]],
    );
    const body = JSON.stringify({ recording: id, server: 'many' });
    const { replayed, differences } = await second.control<Replay>('/api/v1/replays', 'POST', body);
    assert.deepEqual([replayed, differences], [2, []]);
  } finally {
    await second.dispose();
  }
});
