import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import {
  decodeListToolsReply,
  decodeToolReply,
  SUBJECT_CREATED,
  SUBJECT_DELETED,
  subjectExecute,
  subjectListTools,
} from '../../src/compat/index.ts';
import { SECRET } from '../support/cluster-bench.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { RunTimeClient } from '../support/run-time-client.ts';

const TALKER = resolve(import.meta.dirname, '../fixtures/stdio/talker.mjs');
const OPEN = { publicSubjects: true, publicPrincipal: 'ann' };
const agents = { ann: { key: randomBytes(16).toString('hex') } };
const WAIT = { timeout: 30_000 };

/** Runs a test with another program on the same NATS. */
function withProgram(run: (nodes: ClusterProcesses, program: NatsConnection) => Promise<void>): Promise<void> {
  return onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const program = await connect({ servers: nodes.nats.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
      try {
        await run(nodes, program);
      } finally {
        await program.close();
      }
    },
  );
}

async function names(node: NodeProcess): Promise<string[]> {
  const { servers } = await node.control<{ servers: { name: string }[] }>('/api/v1/servers');
  return servers.map(({ name }) => name);
}

/** The revision of a stored server at this node; null if the node does not know it. */
async function revisionAt(node: NodeProcess, server: string): Promise<number | null> {
  const status = await node
    .control<{ desired: { revision: number | null } | null }>(`/api/v1/servers/${server}`)
    .catch(() => null);
  return status?.desired?.revision ?? null;
}

/** The server events that programs receive. */
function listen(program: NatsConnection): { readonly created: string[]; readonly deleted: string[] } {
  const heard = { created: [] as string[], deleted: [] as string[] };
  program.subscribe(SUBJECT_CREATED, { callback: (_, message) => void heard.created.push(message.string()) });
  program.subscribe(SUBJECT_DELETED, { callback: (_, message) => void heard.deleted.push(message.string()) });
  return heard;
}

test("S0.2 S0.6 S0.7 S0.8 S0.9 S0.10 check:H1 two nodes answer the seeds' wire, whichever of them gets the request", () =>
  withProgram(async (nodes, program) => {
    const servers = { talker: { command: process.execPath, args: [TALKER] } };
    const both = [
      await nodes.node('a', servers, { agents, cluster: OPEN }),
      await nodes.node('b', servers, { agents, cluster: OPEN }),
    ];
    for (const node of both) await callable(node, 'talker');
    const execute = async (request: object): Promise<unknown> =>
      decodeToolReply((await program.request(subjectExecute('talker'), JSON.stringify(request), WAIT)).data);
    const list = async (payload: string): Promise<readonly string[]> => {
      const { data } = await program.request(subjectListTools('talker'), payload, WAIT);
      return decodeListToolsReply(data).map(({ name }) => name);
    };
    const requests = Array.from({ length: 12 }, async (_, i) => {
      const session_id = `s${i}`;
      assert.equal(await execute({ session_id, tool: 'texts', args: null }), 'one\ntüo');
      const structured = (await execute({ session_id, tool: 'structured', args: {} })) as { x: number };
      assert.equal(structured.x, 1);
      await assert.rejects(execute({ session_id, tool: 'fails', args: {} }), { message: 'no such file' });
      // Each session has its own count, whichever node got its previous request.
      assert.match(String(await execute({ session_id, tool: 'count', args: {} })), /^4 \d+$/);
      for (const payload of ['', '{"session_id":"s"}', 'nonsense']) {
        assert.deepEqual(await list(payload), ['structured', 'texts', 'fails', 'count']);
      }
    });
    await Promise.all(requests);
    assert.throws(() => decodeToolReply(Buffer.from('error: panic')), /decode tool reply/);
    assert.throws(() => decodeListToolsReply(Buffer.from('{"error":"away"}')), { message: 'away' });
    const served = await Promise.all(
      both.map(async (node) => {
        const { connections } = await node.control<{ connections: unknown[] }>('/api/v1/servers/talker');
        return connections.length;
      }),
    );
    assert.ok(
      served.every((count) => count > 0),
      `both nodes served some of them: ${served}`,
    );
  }));

test('S0.3 S0.4 S0.5 S0.17 check:H2 a server created or deleted on any node is so on every node; messages of programs have no effect', () =>
  withProgram(async (nodes, program) => {
    await using database = await PostgresServer.start();
    const more = { agents, cluster: { ...OPEN, store: database.url } };
    const a = await nodes.node('a', {}, more);
    const b = await nodes.node('b', {}, more);
    const heard = listen(program);
    await program.flush();

    // Every node reports and skips unreadable messages; a made-up server starts nothing.
    for (const subject of [SUBJECT_CREATED, SUBJECT_DELETED]) {
      for (const payload of ['nonsense', '{"name":7}', 'null', '']) program.publish(subject, payload);
    }
    program.publish(SUBJECT_CREATED, JSON.stringify({ name: 'made-up', command: 'touch', args: ['/tmp/made-up'] }));
    for (const node of [a, b]) {
      await until(() => node.stderr.includes('"event":"server_event_unreadable"'), `${node.name} to report it`);
    }

    assert.equal((await new RunTimeClient(a.gateway).add('counter', counterServer())).status, 201);
    for (const node of [a, b]) await callable(node, 'counter');
    await until(() => heard.created.some((text) => text.startsWith('{"name":"counter"')), 'programs to receive it');
    // A false deletion from a program has no effect on any node.
    program.publish(SUBJECT_DELETED, '{"name":"counter"}');
    await program.flush();
    const call = await program.request(subjectExecute('counter'), '{"tool":"count"}', WAIT);
    assert.equal(decodeToolReply(call.data), '1');

    // Programs receive a deletion of a suspended server, and no creation; after resume they receive a creation again.
    const reported = (texts: readonly string[]) => texts.filter((text) => text.startsWith('{"name":"counter"')).length;
    await until(() => reported(heard.created) === 2, 'both nodes to publish the creation');
    assert.equal((await new RunTimeClient(b.gateway).suspend('counter')).status, 200);
    await until(() => reported(heard.deleted) === 3, 'both nodes to publish the deletion');
    assert.equal(reported(heard.created), 2);
    assert.equal((await new RunTimeClient(b.gateway).resume('counter')).status, 200);
    await until(() => reported(heard.created) === 4, 'both nodes to publish the creation again');
    for (const node of [a, b]) await callable(node, 'counter');

    assert.equal((await new RunTimeClient(b.gateway).remove('counter')).status, 200);
    for (const node of [a, b]) await until(async () => (await names(node)).length === 0, 'it is gone everywhere');
    await until(() => reported(heard.deleted) === 5, 'programs to receive its deletion');
    assert.deepEqual(await Promise.all([a, b].map(names)), [[], []], 'no node started the made-up server');
    const texts = heard.created.filter((text) => text.includes('counter'));
    assert.ok(
      texts.every((text) => text.includes('"args":[') && !text.includes('"env"')),
      texts.join(),
    );
  }));

test('S0.17 check:H6 fault:F28 after any changes, in any order of arrival, every node ends with the last of them, also without NATS', () =>
  withProgram(async (nodes, program) => {
    await using database = await PostgresServer.start();
    const more = { agents, cluster: { ...OPEN, store: database.url } };
    const a = await nodes.node('a', {}, more);
    const b = await nodes.node('b', {}, more);
    const operators = [new RunTimeClient(a.gateway), new RunTimeClient(b.gateway)] as const;
    const definition = (i: number) => counterServer({ start: 'lazy', env: { VERSION: String(i) } });
    assert.equal((await operators[0].add('it', definition(0))).status, 201);

    // No node returns to an older revision, whatever events arrive meanwhile.
    let over = false;
    const watching = [a, b].map(async (node) => {
      const seen: number[] = [];
      while (!over) {
        const revision = await revisionAt(node, 'it');
        await new Promise((done) => setTimeout(done, 50));
        if (revision !== null && revision !== seen.at(-1)) seen.push(revision);
      }
      return seen;
    });
    for (let i = 1; i <= 8; i++) {
      const operator = operators[i % 2]!;
      const { status, text } = i % 4 === 0 ? await operator.remove('it') : await operator.change('it', definition(i));
      assert.equal(status, 200, text);
      if (i % 4 === 0) assert.equal((await operators[(i + 1) % 2]!.add('it', definition(i))).status, 201);
      // These events are late, repeated and in the wrong order.
      program.publish(SUBJECT_CREATED, '{"name":"it"}');
      program.publish(SUBJECT_DELETED, '{"name":"it"}');
    }
    const same = async (): Promise<boolean> => {
      const [one, other] = [await revisionAt(a, 'it'), await revisionAt(b, 'it')];
      return one !== null && one === other;
    };
    await until(same, 'both nodes to have the last definition');
    over = true;
    for (const seen of await Promise.all(watching)) {
      assert.deepEqual(
        seen,
        [...seen].sort((one, other) => one - other),
      );
    }

    // Without NATS both nodes get changes from the store; a server of a file becomes known to others when NATS is back.
    await nodes.nats.kill();
    assert.equal((await operators[1].change('it', definition(9))).status, 200);
    assert.equal((await operators[1].add('second', definition(1))).status, 201);
    assert.equal((await operators[0].change('it', definition(10))).status, 200);
    await until(
      async () => (await same()) && (await revisionAt(a, 'second')) !== null,
      'the store to be read without a hint',
    );

    const cluster = { nats: nodes.nats.url, node: 'a', secret: SECRET, ...more.cluster };
    a.gateway.rewrite({ $schema: 'trunkline', mcpServers: { late: counterServer() }, agents, cluster });
    await until(async () => (await names(a)).includes('late'), 'the file to be read');
    assert.equal((await names(b)).includes('late'), false);
    await nodes.nats.run();
    await callable(b, 'late');
  }));
