import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, headers, type NatsConnection } from '@nats-io/transport-node';
import { NatsServer } from '../support/nats-server.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const TALKER = resolve(import.meta.dirname, '../fixtures/stdio/talker.mjs');
const KEY = 'key-of-agent-ann-0123456789';
const PASSWORD = 'the password of nodes';
/** What programs that call tools need, as docs/reference/public-subjects.md says it. */
const PROGRAM_PERMISSIONS = `{
  publish: ["mcp.*.execute", "mcp.*.list-tools"]
  subscribe: ["_INBOX.program.>", "mcp.servers.created", "mcp.servers.deleted"]
}`;
/** What a node needs, as docs/cluster.md says it. */
const NODE_PUBLISHES = '["trunkline.>", "mcp.>", "_INBOX.>", "$JS.API.>", "$JS.FC.>", "$KV.>"]';
const NODE_SUBSCRIBES = '["trunkline.>", "mcp.>"]';
const CALL = '{"session_id":"s1","tool":"count","args":{}}';
const WAIT = { timeout: 30_000 };

/** The attacks of group bus, at a gateway process on a NATS that knows users. */
describe('attacks: bus', () => {
  let nats: NatsServer;
  let gateway: RunningGateway;
  /** A program that may use the public subjects. */
  let program: NatsConnection;
  /** An attacker with the NATS credentials of a node, but without the secret of the cluster. */
  let thief: NatsConnection;

  before(async () => {
    nats = await NatsServer.start({
      config: `authorization { users = [
        { user: node, password: "${PASSWORD}", permissions: { publish: ${NODE_PUBLISHES}, subscribe: ${NODE_SUBSCRIBES} } }
        { user: program, password: program, permissions: ${PROGRAM_PERMISSIONS} }
      ] }`,
    });
    gateway = await RunningGateway.start({
      config: {
        mcpServers: { talker: { command: process.execPath, args: [TALKER], env: { LEDGER: 'ledger' } } },
        agents: { ann: { key: KEY } },
        cluster: { nats: nats.url, user: 'node', password: PASSWORD, publicSubjects: true },
      },
      env: { TRUNKLINE_CLUSTER_SECRET: randomBytes(32).toString('hex') },
    });
    await gateway.ready();
    program = await connect({ servers: nats.url, user: 'program', pass: 'program', inboxPrefix: '_INBOX.program' });
    thief = await connect({ servers: nats.url, user: 'node', pass: PASSWORD, inboxPrefix: 'trunkline.inbox' });
  });

  after(async () => {
    await program?.close();
    await thief?.close();
    await gateway?.dispose();
    await nats?.[Symbol.asyncDispose]();
  });

  function executed(): number {
    const ledger = join(gateway.folder, 'ledger');
    return existsSync(ledger)
      ? readFileSync(ledger, 'utf8')
          .split('\n')
          .filter((line) => line.startsWith('count')).length
      : 0;
  }

  async function call(
    from: NatsConnection,
    payload: string | Uint8Array,
    key?: string,
  ): Promise<Record<string, unknown>> {
    const lines = headers();
    if (key !== undefined) lines.set('Trunkline-Key', key);
    return (await from.request('mcp.talker.execute', payload, { ...WAIT, headers: lines })).json();
  }

  /** The gateway runs, and has executed nothing but this one valid call. */
  async function alive(before: number): Promise<void> {
    const reply = await call(program, CALL, KEY);
    assert.equal(reply['outcome'], 'RESULT');
    assert.equal(executed(), before + 1);
    assert.equal(gateway.process.exitCode, null);
    assert.equal((await fetch(new URL('/livez', gateway.mcpUrl))).status, 200);
  }

  test('check:L3 B01 without credentials, and with wrong ones, NATS accepts no client', async () => {
    for (const how of [{}, { user: 'node', pass: 'guess' }, { token: PASSWORD }]) {
      await assert.rejects(connect({ servers: nats.url, reconnect: false, ...how }), /authorization/i);
    }
    await alive(executed());
  });

  test('check:L3 B02 B03 garbage on internal subjects, and forged calls on them, execute nothing', async () => {
    const before = executed();
    const subjects: string[] = [];
    const listening = thief.subscribe('trunkline.>', {
      callback: (_error, message) => {
        subjects.push(message.subject);
        // Each message of a node is sent again, on its own subject and on a wrong one.
        if (subjects.length < 200) thief.publish(message.subject, message.data);
        if (subjects.length < 200) thief.publish(`${message.subject}.x`, message.data);
      },
    });
    await until(() => subjects.length >= 200);
    listening.unsubscribe();
    for (const subject of new Set(subjects)) {
      for (const junk of ['', CALL, '\0', randomBytes(60), randomBytes(100_000)])
        thief.publish(subject, junk, { reply: 'x.y' });
    }
    await thief.flush();
    await alive(before);
  });

  test('check:L3 B04 forged events create and delete nothing', async () => {
    const before = executed();
    thief.publish(
      'mcp.servers.created',
      JSON.stringify({ name: 'evil', transport: 'stdio', command: 'touch', args: ['evil'] }),
    );
    thief.publish('mcp.servers.deleted', '{"name":"talker"}');
    await thief.flush();
    await alive(before);
    const { servers } = await gateway.control<{ servers: { name: string }[] }>('/api/v1/servers');
    assert.deepEqual(
      servers.map(({ name }) => name),
      ['talker'],
    );
    assert.ok(!existsSync(join(gateway.folder, 'evil')));
  });

  test('check:L3 B05 B06 invalid requests and unknown callers are REFUSED in JSON', async () => {
    const before = executed();
    const deep = `{"tool":"count","args":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}}`;
    for (const payload of [
      '',
      'null',
      '[]',
      '{',
      '{"tool":7}',
      '{"tool":"count","args":[]}',
      '{"tool":"count","args":"x"}',
      '{"tool":"count","tool":"fails"}',
      `{"tool":"count","session_id":"${'x'.repeat(10_000)}"}`,
      deep,
      randomBytes(1000),
    ]) {
      const reply = await call(program, payload, KEY);
      assert.ok(typeof reply['error'] === 'string', JSON.stringify(reply));
      assert.equal(reply['outcome'], 'REFUSED', `${payload.slice(0, 60)}: ${JSON.stringify(reply).slice(0, 300)}`);
    }
    for (const key of [undefined, '', `${KEY}x`, 'ann', 'agent:ann', 'x'.repeat(60_000)]) {
      assert.equal((await call(program, CALL, key))['outcome'], 'REFUSED', key?.slice(0, 40));
    }
    await alive(before);
  });

  test('check:L3 B07 a message larger than the NATS limit is not delivered', async () => {
    const before = executed();
    await assert.rejects(call(program, `{"tool":"count","args":{"x":"${'x'.repeat(2_000_000)}"}}`, KEY));
    await alive(before);
  });

  test('check:L3 B08 wildcards and names of no server have no responder, and no permission', async () => {
    const before = executed();
    for (const subject of [
      'mcp.servers.execute',
      'mcp.evil.execute',
      'mcp.talker.execute.x',
      'mcp.talker',
      'mcp.TALKER.execute',
    ]) {
      await assert.rejects(thief.request(subject, CALL, WAIT), /no responders/, subject);
    }
    for (const subject of ['mcp.*.execute', 'mcp.>'])
      await assert.rejects(async () => thief.request(subject, CALL, { timeout: 500 }));
    await alive(before);
  });

  test('check:L3 B10 a program neither receives the calls of others, with their keys, nor answers or publishes in their place', async () => {
    const before = executed();
    const heard: string[] = [];
    const refused: string[] = [];
    const own = '_INBOX.program.>';
    for (const subject of ['mcp.talker.execute', 'mcp.*.list-tools', 'mcp.servers.*', 'mcp.>', '_INBOX.>', '>']) {
      program.subscribe(subject, {
        callback: (error, message) => void (error === null ? heard.push(message.subject) : refused.push(subject)),
      });
    }
    program.subscribe(own, { callback: (error) => void (error === null || refused.push(own)) });
    await until(() => refused.length === 6);
    const lines = headers();
    lines.set('Trunkline-Key', KEY);
    const answer = await thief.request('mcp.talker.execute', CALL, { ...WAIT, headers: lines });
    assert.equal(answer.json<Record<string, unknown>>()['outcome'], 'RESULT');
    // The program publishes to the reply subject of another client, and as the gateway.
    const taken: string[] = [];
    for (const subject of ['trunkline.inbox.other.1', 'mcp.servers.created', 'mcp.servers.deleted']) {
      thief.subscribe(subject, { callback: (_error, message) => void taken.push(message.subject) });
      await thief.flush();
      program.publish(subject, '{"name":"talker"}');
    }
    await program.flush();
    await thief.flush();
    assert.deepEqual(taken, []);
    assert.deepEqual(heard, []);
    assert.ok(!refused.includes(own));
    await alive(before + 1);
  });

  test('check:L3 B09 a burst is answered completely, and a request without a reply subject runs nothing', async () => {
    const before = executed();
    for (let at = 0; at < 2_000; at++) thief.publish('mcp.talker.execute', CALL);
    for (let at = 0; at < 2_000; at++) thief.publish('trunkline.nodes', randomBytes(200));
    const replies = await Promise.all(Array.from({ length: 2_000 }, () => call(program, CALL, `${KEY}x`)));
    assert.ok(replies.every(({ outcome }) => outcome === 'REFUSED'));
    assert.equal(executed(), before);
    await alive(before);
  });
});

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 30_000;
  while (!condition()) {
    assert.ok(performance.now() < end, condition.toString());
    await new Promise((done) => setTimeout(done, 20));
  }
}
