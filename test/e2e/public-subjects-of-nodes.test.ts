import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { NatsServer } from '../support/nats-server.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const TALKER = resolve(import.meta.dirname, '../fixtures/stdio/talker.mjs');
const WAIT = { timeout: 30_000 };
const SECRET = randomBytes(32).toString('hex');

describe('public subjects of two nodes', () => {
  let nats: NatsServer;
  let client: NatsConnection;
  let nodes: RunningGateway[];

  before(async () => {
    nats = await NatsServer.start();
    client = await connect({ servers: nats.url });
    nodes = await Promise.all(
      ['one', 'two'].map((name) =>
        RunningGateway.start({
          config: configuration(name),
          args: ['--nats', nats.url],
          env: { TRUNKLINE_CLUSTER_SECRET: SECRET },
        }),
      ),
    );
    await Promise.all(nodes.map((node) => node.ready()));
  });

  after(async () => {
    await client?.close();
    await Promise.all(nodes.map((node) => node.dispose()));
    await nats[Symbol.asyncDispose]();
  });

  function configuration(node: string, servers: object = {}): object {
    return {
      mcpServers: { talker: { command: process.execPath, args: [TALKER], env: { LEDGER: 'ledger' } }, ...servers },
      agents: { ann: { key: 'key-of-agent-ann-0123' } },
      cluster: { node, publicSubjects: true, publicPrincipal: 'ann' },
    };
  }

  async function count(session: string): Promise<{ calls: number; pid: string }> {
    const payload = JSON.stringify({ session_id: session, tool: 'count', args: {} });
    const reply = (await client.request('mcp.talker.execute', payload, WAIT)).json<{
      result: string;
      error?: string;
    }>();
    assert.equal(reply.error, undefined);
    const [calls, pid] = reply.result.split(' ');
    return { calls: Number(calls), pid: pid! };
  }

  test('S0.1 S0.18 check:H4 one node answers each call, and a conversation keeps its process whichever node that is', async () => {
    const sessions = ['a', 'b', 'c', 'd', 'e', 'f'];
    const pids = new Map<string, string>();
    for (let round = 1; round <= 6; round++) {
      for (const session of sessions) {
        const { calls, pid } = await count(session);
        assert.equal(calls, round, `${session} in round ${round}`);
        assert.equal(pids.get(session) ?? pid, pid);
        pids.set(session, pid);
      }
    }
    assert.equal(new Set(pids.values()).size, sessions.length);
    const executed = (): number[] =>
      nodes.map(({ folder }) => {
        const ledger = join(folder, 'ledger');
        return existsSync(ledger)
          ? readFileSync(ledger, 'utf8')
              .split('\n')
              .filter((line) => /^count/.test(line)).length
          : 0;
      });
    const counts = executed();
    assert.equal(counts[0]! + counts[1]!, sessions.length * 6, 'each call was executed once');
    // NATS chooses a node for each call at random: six conversations may all have begun at one node.
    for (let more = 0; more < 40 && executed().includes(0); more++) await count(`more ${more}`);
    assert.ok(!executed().includes(0), `both nodes run processes: ${executed().join(' and ')}`);
  });

  test('S0.3 a server registered on one node is served by both, and forged events have no effect', async () => {
    const heard: string[] = [];
    client.subscribe('mcp.servers.created', {
      callback: (_error, message) => {
        const { name } = message.json<{ name: string }>();
        if (name === 'late') heard.push(name);
      },
    });
    await client.flush();
    nodes[0]!.rewrite(configuration('one', { late: { command: process.execPath, args: [TALKER] } }));
    await until(() => heard.includes('late'));
    // Only the first node has the server: the second node passes on each call that it answers, and the first none.
    const before = await passedOn(nodes[1]!);
    const ask = async (): Promise<void> => {
      const reply = await client.request('mcp.late.execute', '{"session_id":"x","tool":"count","args":{}}', WAIT);
      assert.equal(reply.json<{ outcome: string }>().outcome, 'RESULT');
    };
    let asked = 0;
    let bySecond = 0;
    const end = performance.now() + 20_000;
    while (bySecond === 0 || bySecond === asked) {
      assert.ok(performance.now() < end, `of ${asked} calls the second node answered ${bySecond}`);
      for (let at = 0; at < 10; at++) await ask();
      asked += 10;
      bySecond = (await passedOn(nodes[1]!)) - before;
    }
    assert.deepEqual(heard, ['late']);
  });

  test('S0.4 a server is reported as gone when no node has it any more, and not before', async () => {
    const heard: string[] = [];
    const listening = client.subscribe('mcp.servers.*', {
      callback: (_error, message) => {
        const { name } = message.json<{ name: string }>();
        if (name === 'both') heard.push(message.subject.split('.')[2]!);
      },
    });
    await client.flush();
    const both = { both: { command: process.execPath, args: [TALKER] } };
    const [one, two] = nodes as [RunningGateway, RunningGateway];
    one.rewrite(configuration('one', both));
    two.rewrite(configuration('two', both));
    await until(() => heard.length === 2);
    one.rewrite(configuration('one'));
    await until(() => one.stderr.includes('"removed":["both"]'));
    // Longer than a node waits before it reports a deleted server.
    await new Promise((done) => setTimeout(done, 1_500));
    assert.deepEqual(heard, ['created', 'created']);
    const call = '{"session_id":"b","tool":"count","args":{}}';
    const reply = await client.request('mcp.both.execute', call, WAIT);
    assert.equal(reply.json<{ outcome: string }>().outcome, 'RESULT');
    two.rewrite(configuration('two'));
    await until(() => heard.length === 4);
    assert.deepEqual(heard.slice(2), ['deleted', 'deleted']);
    listening.unsubscribe();
  });

  test('a node that stops takes no more calls, and none is lost', async () => {
    const running = Array.from({ length: 40 }, (_, at) => count(`leaving-${at % 8}`));
    const stopped = nodes[1]!.stop();
    const answers = await Promise.all(
      running.map((one) =>
        one.then(
          () => 'ok',
          (error: Error) => error.message,
        ),
      ),
    );
    assert.equal(await stopped, 0);
    assert.ok(
      answers.every((answer) => answer === 'ok'),
      JSON.stringify(answers),
    );
    await count('afterwards');
  });
});

/** The number of calls that the node has passed on to other nodes. */
async function passedOn(node: RunningGateway): Promise<number> {
  const line = /^trunkline_cluster_calls_total\{direction="out"\} (\d+)$/m.exec(await node.metrics());
  return Number(line![1]);
}

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 30_000;
  while (!condition()) {
    assert.ok(performance.now() < end, condition.toString());
    await new Promise((done) => setTimeout(done, 20));
  }
}
