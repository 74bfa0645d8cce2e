import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { ClusterProcesses, counterServer, type NodeProcess, until as untilTrue } from '../support/cluster-processes.ts';
import { currentNatsServer } from '../support/nats-server.ts';
import { TcpGate } from '../support/tcp-gate.ts';

interface Reply {
  readonly outcome: string;
  readonly result?: string;
  readonly tools?: readonly unknown[];
}

/** A call of a program, and every reply that came to it. How soon they come is shown with injected time (`OpenCalls`). */
interface Called {
  readonly replies: Reply[];
}

const SETTINGS = {
  agents: { ann: { key: 'key-of-agent-ann-0123' } },
  cluster: { publicSubjects: true, publicPrincipal: 'ann' },
};
const CALLS = 8;

const current = await currentNatsServer();
if ('missing' in current) console.warn(`SKIPPED: public callers on the current nats-server: ${current.missing}`);
const PROGRAMS = 'program' in current ? [undefined, current.program] : [undefined];

for (const program of PROGRAMS) {
  describe(`public calls and nodes that die, on ${program === undefined ? "the system's" : 'the newest'} nats-server`, () => {
    let nodes: ClusterProcesses;
    let caller: NatsConnection;
    let file: string;
    let called: Called[];

    beforeEach(async () => {
      nodes = await ClusterProcesses.start(program === undefined ? {} : { program });
      caller = await connect({ servers: nodes.nats.url });
      file = join(nodes.folder, 'go');
      called = [];
    });

    afterEach(async () => {
      await caller.close();
      await nodes.dispose();
    });

    function node(name: string, servers: readonly string[], nats = nodes.nats.url): Promise<NodeProcess> {
      const all = Object.fromEntries(servers.map((server) => [server, counterServer({ isolation: 'session' })]));
      return nodes.node(name, all, SETTINGS, { nats });
    }

    async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
      await untilTrue(condition, what).catch((error: Error) => {
        const inHand = Promise.all(
          nodes.nodes.map(async (one) => `${one.name} ${one.ended ? 'ended' : await busy(one)}`),
        );
        const came = called.map(({ replies }) => JSON.stringify(replies).slice(0, 300)).join(' ');
        return inHand.then((each) =>
          Promise.reject(new Error(`${error.message}: ${each.join(', ')}; replies: ${came}`)),
        );
      });
    }

    function call(subject: string, request: object): Called {
      const replies: Reply[] = [];
      const inbox = `_INBOX.test.${Math.random().toString(36).slice(2)}`;
      caller.subscribe(inbox, {
        callback: (_error, message) => void replies.push(message.json<Reply>()),
      });
      caller.publish(subject, JSON.stringify(request), { reply: inbox });
      called.push({ replies });
      return { replies };
    }

    /** Calls that wait for the file, each of a conversation of its own, so that nodes and processes vary. */
    async function waiting(server: string, count = CALLS): Promise<Called[]> {
      const calls = Array.from({ length: count }, (_, i) =>
        call(`mcp.${server}.execute`, { session_id: `s${i}`, tool: 'wait', args: { file } }),
      );
      await caller.flush();
      return calls;
    }

    /** How many of these calls processes of this node run: its own requests to them, such as lists, do not count. */
    function begun(node: NodeProcess): number {
      const parents = existsSync(`${file}.begun`) ? readFileSync(`${file}.begun`, 'utf8').trim().split('\n') : [];
      return parents.filter((pid) => Number(pid) === node.gateway.process.pid).length;
    }

    const outcomes = (calls: readonly Called[]) =>
      calls.map(({ replies }) => replies.map(({ outcome }) => outcome).join());
    const ended = (calls: readonly Called[]) => () => calls.every(({ replies }) => replies.length > 0);

    test('S0.18 check:C9 a node is killed: its calls are UNKNOWN while the rest still runs, those of another are the RESULT', async () => {
      const [blue, green] = [await node('blue', ['both']), await node('green', ['both'])];
      const calls = await waiting('both');
      await until(() => begun(blue) + begun(green) === CALLS, 'all calls to run');
      const survivors = begun(green);
      blue.kill('SIGKILL');
      await until(() => calls.filter(({ replies }) => replies.length > 0).length === CALLS - survivors, 'UNKNOWN');
      writeFileSync(file, '');
      await until(ended(calls), 'all calls to end');
      await sleep(1_000);
      const all = outcomes(calls);
      assert.equal(all.filter((outcome) => outcome === 'RESULT').length, survivors, all.join(' '));
      assert.equal(all.filter((outcome) => outcome === 'UNKNOWN').length, CALLS - survivors, all.join(' '));
    });

    test('S0.18 the node that only took calls is killed: each ends with its RESULT, from the node where it runs', async () => {
      const taker = await node('taker', []);
      const instance = await node('home', ['there']);
      await until(async () => (await namesAt(taker)).includes('there'), 'the server to be known');
      const calls = await waiting('there');
      await until(async () => {
        if ((await passedOn(taker)) > 0) return true;
        calls.push(...(await waiting('there', 1)));
        return false;
      }, 'the first node to take a call');
      await until(() => begun(instance) === calls.length, 'all calls to run');
      taker.kill('SIGKILL');
      await sleep(500);
      writeFileSync(file, '');
      await until(ended(calls), 'all calls to end');
      await sleep(1_000);
      assert.deepEqual(outcomes(calls), Array(calls.length).fill('RESULT'));
      assert.ok(calls.every(({ replies }) => replies[0]!.result === 'waited'));
    });

    test('S0.18 S0.2 a node is stopped: lists come from another one, calls are UNKNOWN, and none runs or is answered later', async () => {
      const [blue, green] = [await node('blue', ['both']), await node('green', ['both'])];
      blue.kill('SIGSTOP');
      const lists = Array.from({ length: CALLS }, () => call('mcp.both.list-tools', {}));
      // NATS picks a node for each: of eight, none may go to the stopped one.
      const calls = Array.from({ length: 2 * CALLS }, (_, i) =>
        call('mcp.both.execute', { session_id: `s${i}`, tool: 'hold', args: { file } }),
      );
      await until(ended(lists), 'all lists');
      await until(
        async () => calls.filter(({ replies }) => replies.length > 0).length + (await busy(green)) === calls.length,
        'calls',
      );
      assert.deepEqual(outcomes(lists), Array(CALLS).fill('RESULT'));
      assert.ok(lists.every(({ replies }) => replies[0]!.tools!.length === 8));
      const unknown = calls.filter(({ replies }) => replies.length > 0);
      assert.ok(unknown.length > 0, 'the stopped node was sent no call');
      blue.kill('SIGCONT');
      await until(() => blue.ready(), 'the node to be back');
      await sleep(1_500);
      assert.equal(await busy(blue), 0, 'it ran calls that were answered with UNKNOWN');
      assert.deepEqual(outcomes(unknown), Array(unknown.length).fill('UNKNOWN'));
      assert.deepEqual(outcomes(lists), Array(CALLS).fill('RESULT'));
    });

    test('S0.18 NATS restarts under calls: each has its RESULT, once, also where its program is back late', async () => {
      await caller.close();
      await using gate = await TcpGate.start(nodes.nats.port);
      const servers = `nats://127.0.0.1:${gate.port}`;
      caller = await connect({ servers, reconnectTimeWait: 100, maxReconnectAttempts: -1 });
      const [blue, green] = [await node('blue', ['both']), await node('green', ['both'])];
      const calls = await waiting('both');
      await until(() => begun(blue) + begun(green) === CALLS, 'all calls to run');
      await nodes.nats.kill();
      gate.shut();
      writeFileSync(file, '');
      await sleep(300);
      await nodes.nats.run();
      // By now another node would have ended calls that no node reports as running.
      await sleep(3_500);
      gate.open();
      await until(ended(calls), 'all calls to end');
      await sleep(2_500);
      assert.deepEqual(outcomes(calls), Array(CALLS).fill('RESULT'));
    });

    test('S0.18 answers that go into a connection that is already dead come after the node is back, once', async () => {
      await using gate = await TcpGate.start(nodes.nats.port);
      const alone = await node('alone', ['both'], `nats://127.0.0.1:${gate.port}`);
      const calls = await waiting('both');
      await until(() => begun(alone) === CALLS, 'all calls to run');
      gate.hold('up');
      writeFileSync(file, '');
      await until(async () => (await busy(alone)) === 0, 'all calls to be answered');
      gate.shut();
      gate.open();
      await until(ended(calls), 'all calls to end');
      assert.deepEqual(outcomes(calls), Array(CALLS).fill('RESULT'));
    });

    test('S0.18 the node that took a call is cut off from NATS: UNKNOWN while the rest still runs, and no other answer after that', async () => {
      await using gate = await TcpGate.start(nodes.nats.port);
      const cut = await node('cut', ['both'], `nats://127.0.0.1:${gate.port}`);
      const other = await node('other', ['both']);
      const calls = await waiting('both');
      await until(() => begun(cut) + begun(other) === CALLS, 'all calls to run');
      const there = begun(cut);
      gate.shut();
      await until(() => calls.filter(({ replies }) => replies.length > 0).length >= there, 'UNKNOWN');
      writeFileSync(file, '');
      await until(ended(calls), 'all calls to end');
      gate.open();
      await until(() => cut.ready(), 'the node to be back');
      await sleep(1_500);
      const all = outcomes(calls);
      assert.equal(all.filter((outcome) => outcome === 'UNKNOWN').length, there, all.join(' '));
      assert.equal(all.filter((outcome) => outcome === 'RESULT').length, CALLS - there, all.join(' '));
    });
  });
}

/** Calls that this node passed on. */
async function passedOn(node: NodeProcess): Promise<number> {
  const text = await node.gateway.metrics();
  return Number(/^trunkline_cluster_calls_total\{direction="out"\} (\d+)$/m.exec(text)![1]);
}

async function namesAt(node: NodeProcess): Promise<string[]> {
  const { servers } = await node.control<{ servers: { name: string }[] }>('/api/v1/servers');
  return servers.map(({ name }) => name);
}

/** Requests that the servers of this node have in hand, the gateway's own too. */
async function busy(node: NodeProcess): Promise<number> {
  const { servers } = await node.control<{ servers: { connections?: { inFlight: number }[] }[] }>('/api/v1/servers');
  return servers.flatMap(({ connections = [] }) => connections).reduce((sum, { inFlight }) => sum + inFlight, 0);
}
