import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, headers, type Msg, type NatsConnection } from '@nats-io/transport-node';
import {
  SUBJECT_CREATED,
  SUBJECT_DELETED,
  subjectExecute,
  subjectListTools,
} from '../../src/app/public-subjects/subjects.ts';
import { decodeListToolsReply, decodeToolReply } from '../../src/app/public-subjects/tool-client.ts';
import { NatsServer } from '../support/nats-server.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const TALKER = resolve(import.meta.dirname, '../fixtures/stdio/talker.mjs');
const SECRET = randomBytes(32).toString('hex');
const KEY = 'the key of agent ann'.replaceAll(' ', '-');
const NARROW_KEY = 'the key of agent bob'.replaceAll(' ', '-');
const CANARY = 'canary-7f3a9c1e5b';
const WAIT = { timeout: 30_000 };

/** A gateway process on a real nats-server, and beside it another program that uses only NATS and JSON. */
describe('public subjects', () => {
  let nats: NatsServer;
  let client: NatsConnection;
  let gateway: RunningGateway;

  before(async () => {
    nats = await NatsServer.start();
    client = await connect({ servers: nats.url });
    gateway = await node({ publicSubjects: true, publicPrincipal: 'ann' });
  });

  after(async () => {
    await client.close();
    await gateway.dispose();
    await nats[Symbol.asyncDispose]();
  });

  async function node(cluster: object, servers: object = {}): Promise<RunningGateway> {
    const started = await RunningGateway.start({
      config: configuration(cluster, servers),
      env: { TRUNKLINE_CLUSTER_SECRET: SECRET, LEDGER_CANARY: CANARY },
    });
    await started.ready();
    return started;
  }

  function configuration(cluster: object, servers: object = {}): object {
    return {
      mcpServers: {
        talker: { command: process.execPath, args: [TALKER], env: { LEDGER: 'ledger', TOKEN: '${LEDGER_CANARY}' } },
        'dotted.name': { command: process.execPath, args: [TALKER] },
        // The subjects of the events have this name too.
        servers: { command: process.execPath, args: [TALKER] },
        ...servers,
      },
      agents: { ann: { key: KEY }, bob: { key: NARROW_KEY, servers: ['dotted.name'] } },
      cluster: { nats: nats.url, ...cluster },
    };
  }

  async function send(
    subject: string,
    payload: string,
    key?: string,
  ): Promise<{ json: Json; text: string; data: Uint8Array }> {
    const lines = headers();
    if (key !== undefined) lines.set('Trunkline-Key', key);
    const message = await client.request(subject, payload, { ...WAIT, headers: lines });
    return { json: message.json<Json>(), text: message.string(), data: message.data };
  }

  const execute = (tool: string, more: object = {}, key?: string) =>
    send('mcp.talker.execute', JSON.stringify({ session_id: 's1', tool, args: {}, ...more }), key);

  test('S0.1 S0.6 S0.7 check:H1 a program calls a tool; the structured content is the result, the whole is beside it', async () => {
    assert.equal(subjectExecute('talker'), 'mcp.talker.execute');
    const { json, text, data } = await execute('structured');
    assert.ok(text.startsWith('{"result":{"n":12345678901234567890,"x":1.0},'), text);
    const mcp =
      '{"content":[{"type":"text","text":"flat"}],"structuredContent":{"n":12345678901234567890,"x":1.0},"_meta":{"a":1.0}}';
    assert.ok(text.includes(`"mcp":${mcp}`), text);
    assert.equal(json['outcome'], 'RESULT');
    assert.equal('error' in json, false);
    assert.deepEqual(decodeToolReply(data), JSON.parse('{"n":12345678901234567890,"x":1.0}'));
  });

  test('S0.7 without structured content the result is the texts, one per line', async () => {
    const { json } = await execute('texts');
    assert.equal(json['result'], 'one\ntüo');
    assert.equal((json['mcp'] as { content: unknown[] }).content.length, 3);
    const { json: none } = await execute('null');
    assert.equal(none['result'], 'plain');
    assert.equal((none['mcp'] as Json)['structuredContent'], null);
  });

  test("S0.7 S0.9 S0.10 a tool's own error is a plain string in error; the decoder throws it", async () => {
    const { json, data } = await execute('fails');
    assert.equal(json['error'], 'no such file');
    assert.equal('result' in json, false);
    assert.equal(json['outcome'], 'RESULT');
    assert.equal((json['mcp'] as { isError: boolean }).isError, true);
    assert.throws(() => decodeToolReply(data), { message: 'no such file' });
    const unknown = await execute('nonsense');
    assert.match(String(unknown.json['error']), /no tool nonsense|nonsense/);
    assert.throws(() => decodeToolReply(Buffer.from('error: panic')), /^Error: decode tool reply/);
    assert.throws(() => decodeToolReply(Buffer.from('7')), /^Error: decode tool reply/);
    assert.throws(() => decodeListToolsReply(Buffer.from('')), /^Error: decode list-tools reply/);
    assert.deepEqual(decodeListToolsReply(Buffer.from('{"tools":null}')), []);
    assert.throws(() => decodeListToolsReply(Buffer.from('{"tools":[],"error":"down"}')), { message: 'down' });
  });

  test('S0.2 S0.8 S0.10 check:H1 a list has all pages of whole tools, for an empty request, a JSON one, and nonsense', async () => {
    assert.equal(subjectListTools('talker'), 'mcp.talker.list-tools');
    for (const payload of ['', '{"session_id":"s1","tool":"","args":null}', '{}', 'nonsense', 'null', '[1]']) {
      const { json, text, data } = await send('mcp.talker.list-tools', payload);
      const tools = decodeListToolsReply(data);
      assert.deepEqual(
        tools.map(({ name }) => name),
        ['structured', 'texts', 'fails', 'count'],
        payload,
      );
      assert.ok(text.includes('"future":1.0,"annotations":{"readOnlyHint":true}'), text);
      assert.equal('error' in json, false);
    }
  });

  test('S0.6 S0.18 a conversation keeps its process, another one has its own, and without an id it is default', async () => {
    const count = async (session: string | undefined, key?: string): Promise<[number, string]> => {
      const { json } = await send(
        'mcp.talker.execute',
        JSON.stringify({ ...(session === undefined ? {} : { session_id: session }), tool: 'count', args: null }),
        key,
      );
      const [calls, pid] = String(json['result']).split(' ');
      return [Number(calls), pid!];
    };
    const first = await count('chat-1');
    const second = await count('chat-1');
    assert.deepEqual(second, [first[0] + 1, first[1]]);
    const other = await count('chat-2');
    assert.notEqual(other[1], first[1]);
    const none = await count(undefined);
    const byDefault = await count('');
    assert.equal(none[1], byDefault[1]);
    assert.equal((await count('default'))[1], none[1]);
  });

  test('S0.6 arguments reach the server to the digit; none and null are an empty map', async () => {
    await send('mcp.talker.execute', '{"tool":"count","args":{"big":12345678901234567890,"x":1.0,"s":"\\u00e9"}}');
    await send('mcp.talker.execute', '{"tool":"count"}');
    const ledger = readFileSync(join(gateway.folder, 'ledger'), 'utf8');
    assert.ok(ledger.includes('count {"big":12345678901234567890,"x":1.0,"s":"\\u00e9"}'), ledger);
    assert.match(ledger, /^count \{\}$/m);
  });

  test('the caller’s deadline applies, and the server is notified', async () => {
    for (const [more, header] of [
      [{ timeout_ms: 300 }, null],
      [{}, '300'],
    ] as const) {
      const lines = headers();
      if (header !== null) lines.set('Trunkline-Timeout-Ms', header);
      const payload = JSON.stringify({ session_id: 'slow', tool: 'hang', args: {}, ...more });
      const { json } = await client
        .request('mcp.talker.execute', payload, { ...WAIT, headers: lines })
        .then((message) => ({ json: message.json<Json>() }));
      assert.equal(json['outcome'], 'UNKNOWN');
      assert.equal((json['failure'] as Json)['name'], 'TIMEOUT');
      assert.equal((json['failure'] as Json)['sent'], true);
    }
    const cancelled = (): number => readFileSync(join(gateway.folder, 'ledger'), 'utf8').split('cancelled').length - 1;
    await until(
      () => cancelled() === 2,
      () => readFileSync(join(gateway.folder, 'ledger'), 'utf8'),
    );
  });

  test('an answer that NATS cannot carry is TOO_LARGE at once', async () => {
    const { json } = await execute('big', { args: { bytes: 1_100_000 } });
    assert.equal((json['failure'] as Json)['name'], 'TOO_LARGE');
    assert.equal(json['outcome'], 'UNKNOWN');
    const fits = await execute('big', { args: { bytes: 400_000 } });
    assert.equal(String(fits.json['result']).length, 400_000);
    // The answer has the message twice: as `error` and in `mcp_error`.
    const broken = await execute('breaks', { args: { bytes: 700_000 }, timeout_ms: 10_000 });
    assert.equal((broken.json['failure'] as Json)['name'], 'TOO_LARGE');
    const short = await execute('breaks', { args: { bytes: 400_000 } });
    assert.equal(String((short.json['mcp_error'] as Json)['message']).length, 400_000);
  });

  test('check:A14 a server that was added for one session has no subject and is not announced', async () => {
    const heard: string[] = [];
    const callback = (_error: Error | null, message: Msg): void => void heard.push(message.string());
    const listening = client.subscribe('mcp.servers.*', { callback });
    await client.flush();
    const heardOf = (text: string) => until(() => heard.join().includes(text), heard.join.bind(heard));
    const owner = await WireClient.open(gateway.mcpUrl, { headers: { authorization: `Bearer ${KEY}` } });
    const { sessions } = await gateway.control<{ sessions: { label: string }[] }>('/api/v1/sessions');
    const adder = new RunTimeClient(gateway);
    const definition = { command: process.execPath, args: [TALKER] };
    for (const [name, query] of Object.entries({ bound: `session=${sessions[0]!.label}`, brief: 'ttlMs=600000' })) {
      const { status, text } = await adder.add(name, definition, `?${query}`);
      assert.equal(status, 201, text);
    }
    await gateway.ready('bound', 'brief');
    await heardOf('"brief"');
    assert.equal((await send(subjectExecute('brief'), '{"tool":"count"}')).json['outcome'], 'RESULT');
    await assert.rejects(client.request(subjectExecute('bound'), '{"tool":"count"}', WAIT), /no responders/);
    assert.ok((await owner.toolNames()).includes('bound__count'));
    for (const name of ['bound', 'brief']) assert.equal((await adder.remove(name)).status, 200);
    await heardOf('{"name":"brief"}');
    listening.unsubscribe();
    assert.doesNotMatch(heard.join(), /bound/);
  });

  test('S0.1 subjects encode ambiguous characters of names as =XX', async () => {
    assert.equal(subjectExecute('dotted.name'), 'mcp.dotted=2Ename.execute');
    assert.equal(subjectExecute('a b*>é='), 'mcp.a=20b=2A=3E=C3=A9=3D.execute');
    const { json } = await send('mcp.dotted=2Ename.execute', '{"tool":"count","args":{}}');
    assert.equal(json['outcome'], 'RESULT');
  });

  test('S0.1 check:L3 a server named like the events has another subject, which subscribers of the events do not receive', async () => {
    assert.equal(subjectExecute('servers'), 'mcp.=73ervers.execute');
    assert.equal(subjectListTools('servers'), 'mcp.=73ervers.list-tools');
    const overheard: string[] = [];
    const listening = client.subscribe('mcp.servers.*', {
      // Except the events themselves.
      callback: (_error, { subject }) => void (subject === SUBJECT_CREATED || overheard.push(subject)),
    });
    const { json } = await send(subjectExecute('servers'), '{"tool":"count","args":{}}', KEY);
    assert.equal(json['outcome'], 'RESULT');
    const { json: list } = await send(subjectListTools('servers'), '', KEY);
    assert.equal((list['tools'] as object[]).length, 4);
    listening.unsubscribe();
    assert.deepEqual(overheard, []);
    // No node answers under the name of the events.
    await assert.rejects(client.request('mcp.servers.execute', '{"tool":"count"}', WAIT), /no responders/);
  });

  test('check:H1 the caller is the agent of its key; a wrong key is refused', async () => {
    const mine = await send('mcp.dotted=2Ename.execute', '{"tool":"count"}', NARROW_KEY);
    assert.equal(mine.json['outcome'], 'RESULT');
    const foreign = await execute('count', {}, NARROW_KEY);
    assert.equal(foreign.json['outcome'], 'REFUSED');
    const wrong = await execute('count', {}, `${KEY}x`);
    assert.equal(wrong.json['outcome'], 'REFUSED');
    const listed = await send('mcp.talker.list-tools', '', `${KEY}x`);
    assert.equal(listed.json['outcome'], 'REFUSED');
    assert.deepEqual(listed.json['tools'], []);
    assert.ok(typeof listed.json['error'] === 'string');
  });

  test('S0.3 S0.4 S0.5 check:H2 programs receive events of added and removed servers, without any secret', async () => {
    const heard: { subject: string; text: string }[] = [];
    client.subscribe('mcp.servers.*', {
      callback: (_error, message) => {
        // Ignores the servers that the node had when it started.
        if (/late|remote/.test(message.string())) heard.push({ subject: message.subject, text: message.string() });
      },
    });
    await client.flush();
    const reported = (): string => `${JSON.stringify(heard)}\n${gateway.stderr.slice(-3000)}`;
    const late = {
      late: {
        command: process.execPath,
        args: [TALKER, `--token=${CANARY}`, '${LEDGER_CANARY}'],
        env: { TOKEN: CANARY },
      },
      remote: { url: `http://127.0.0.1:9/${CANARY}/mcp?key=${CANARY}`, headers: { authorization: CANARY } },
    };
    gateway.rewrite(configuration({ publicSubjects: true, publicPrincipal: 'ann' }, late));
    await until(() => heard.filter(({ subject }) => subject === SUBJECT_CREATED).length === 2, reported);
    const answer = await send(subjectExecute('late'), '{"tool":"count"}');
    assert.equal(answer.json['outcome'], 'RESULT');
    gateway.rewrite(configuration({ publicSubjects: true, publicPrincipal: 'ann' }));
    await until(() => heard.filter(({ subject }) => subject === SUBJECT_DELETED).length === 2, reported);
    const created = heard
      .filter(({ subject }) => subject === SUBJECT_CREATED)
      .map(({ text }) => JSON.parse(text) as Json);
    assert.deepEqual(
      created.map(({ name }) => name),
      ['late', 'remote'],
    );
    assert.equal(created[0]!['transport'], 'stdio');
    assert.equal(created[0]!['command'], process.execPath);
    assert.deepEqual(created[0]!['args'], [TALKER, '--token=[redacted]', '${LEDGER_CANARY}']);
    assert.equal(created[1]!['url'], 'http://127.0.0.1:9/[redacted]/mcp');
    const deleted = heard.filter(({ subject }) => subject === SUBJECT_DELETED).map(({ text }) => text);
    assert.deepEqual(deleted, ['{"name":"late"}', '{"name":"remote"}']);
    assert.ok(heard.every(({ text }) => !text.includes(CANARY)));
    assert.equal(SUBJECT_CREATED, 'mcp.servers.created');
    assert.equal(SUBJECT_DELETED, 'mcp.servers.deleted');
    await assert.rejects(client.request(subjectExecute('late'), '{}', WAIT), /no responders/);
  });

  test('S0.3 S0.4 a disabled server is announced as deleted, its changes are not announced; announced servers can be called', async () => {
    const heard: string[] = [];
    const called: Promise<{ json: Json }>[] = [];
    client.subscribe('mcp.servers.*', {
      callback: (_error, message) => {
        const { name } = message.json<{ name: string }>();
        if (!['one', 'first', 'second'].includes(name)) return;
        heard.push(`${message.subject.split('.').at(-1)} ${name}`);
        if (message.subject === SUBJECT_CREATED) called.push(send(subjectExecute(name), '{"tool":"count"}'));
      },
    });
    await client.flush();
    const written = (servers: object): void =>
      gateway.rewrite(configuration({ publicSubjects: true, publicPrincipal: 'ann' }, servers));
    const one = (more: object) => ({ command: process.execPath, args: [TALKER], ...more });
    const heardOf = (text: string) =>
      until(
        () => heard.at(-1) === text,
        () => heard.join(),
      );
    // Waits for the answers before the servers are removed again.
    const answered = async (): Promise<void> => {
      for (const answer of await Promise.all(called)) assert.equal(answer.json['outcome'], 'RESULT');
    };
    written({ one: one({ enabled: false }), first: one({}) });
    await heardOf('created first');
    written({ one: one({ enabled: false, description: 'changed' }), first: one({}), second: one({}) });
    await heardOf('created second');
    await answered();
    written({ one: one({ description: 'changed' }) });
    await until(
      () => heard.length === 5,
      () => heard.join(),
    );
    await answered();
    written({ one: one({ enabled: false }) });
    await heardOf('deleted one');
    written({});
    await new Promise((done) => setTimeout(done, 500));
    assert.deepEqual(heard, [
      'created first',
      'created second',
      ...['created one', 'deleted first', 'deleted second'],
      'deleted one',
    ]);
    assert.equal(called.length, 3);
  });

  test('S0.3 a node announces its servers at start; without a public principal a caller without a key is REFUSED; without publicSubjects no node answers', async () => {
    await gateway.dispose();
    const brought: string[] = [];
    client.subscribe(SUBJECT_CREATED, {
      callback: (_error, message) => void brought.push(message.json<{ name: string }>().name),
    });
    await client.flush();
    gateway = await node({ publicSubjects: true });
    const refused = await execute('count');
    assert.equal(refused.json['outcome'], 'REFUSED');
    assert.equal((await execute('count', {}, KEY)).json['outcome'], 'RESULT');
    await until(
      () => brought.length >= 3,
      () => brought.join(),
    );
    assert.deepEqual(brought.sort(), ['dotted.name', 'servers', 'talker']);
    await gateway.dispose();
    gateway = await node({});
    await assert.rejects(execute('count', {}, KEY), /no responders/);
  });

  test('a node without the secret of the cluster is refused with a reason', async () => {
    await assert.rejects(
      RunningGateway.start({
        config: configuration({}),
        env: { TRUNKLINE_CLUSTER_SECRET: 'short', LEDGER_CANARY: CANARY },
      }),
      /did not start[\s\S]*TL1701/,
    );
    await assert.rejects(
      RunningGateway.start({ config: configuration({}), env: { LEDGER_CANARY: CANARY } }),
      /did not start[\s\S]*TL1701/,
    );
  });
});

type Json = Record<string, unknown>;

async function until(condition: () => boolean, reported: () => string): Promise<void> {
  const end = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error(reported());
    await new Promise((done) => setTimeout(done, 20));
  }
}
