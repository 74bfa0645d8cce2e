import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect, headers } from '@nats-io/transport-node';
import { ToolCallError, ToolClient } from '../../src/client.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';

const KEY = 'key-of-agent-ann-0123';
const SETTINGS = { agents: { ann: { key: KEY } }, cluster: { publicSubjects: true } };

test('S0.6 S0.7 S0.8 S0.18 a program calls tools by the client, whichever node has its conversation, and learns how each call ended', async () => {
  const nodes = await ClusterProcesses.start();
  const connection = await connect({ servers: nodes.nats.url });
  try {
    const lines = headers();
    lines.set('Trunkline-Key', KEY);
    const client = new ToolClient(connection, { sessionId: 's1', headers: lines, timeoutMs: 10_000 });
    // No node is there yet: a call that did not begin is sent again until one is.
    const early = client.call('both', 'count');
    const both = { both: counterServer({ isolation: 'session' }) };
    const blue = await nodes.node('blue', both, SETTINGS);
    const first = await early.catch((error: unknown) => error);
    assert.ok(first instanceof ToolCallError ? first.outcome === 'NOT_SENT' : true, String(first));
    const green = await nodes.node('green', both, SETTINGS);
    const before = Number((await client.call('both', 'count')).result);
    for (let i = 1; i <= 10; i++) assert.equal(Number((await client.call('both', 'count')).result), before + i);
    assert.ok((await client.tools('both')).some(({ name }) => name === 'count'));

    const refused = await new ToolClient(connection).call('both', 'count').catch((error: unknown) => error);
    assert.ok(refused instanceof ToolCallError && refused.outcome === 'REFUSED', String(refused));
    const nowhere = await new ToolClient(connection, { timeoutMs: 300 })
      .tools('nowhere')
      .catch((error: unknown) => error);
    assert.ok(nowhere instanceof ToolCallError && nowhere.outcome === 'NOT_SENT', String(nowhere));

    // A node dies with calls in flight.
    const file = join(nodes.folder, 'go');
    const passedBefore = await passedOn(green);
    const waiting = Array.from({ length: 6 }, (_, i) =>
      new ToolClient(connection, { sessionId: `w${i}`, headers: lines, timeoutMs: 10_000 })
        .call('both', 'wait', { file })
        .then(
          ({ outcome }) => outcome,
          (error: ToolCallError) => error.outcome,
        ),
    );
    await until(async () => (await busy(blue)) + (await busy(green)) === waiting.length, 'all calls to run');
    // Lists that the gateway itself requests when a process starts were in flight, too.
    await new Promise((done) => setTimeout(done, 500));
    await until(async () => (await busy(blue)) + (await busy(green)) === waiting.length, 'only the calls to run');
    const inHand = await busy(green);
    const passed = (await passedOn(green)) - passedBefore;
    green.kill('SIGKILL');
    await new Promise((done) => setTimeout(done, 2_500));
    writeFileSync(file, '');
    const outcomes = await Promise.all(waiting);
    // Calls that the dead node took or passed on may end either way.
    assert.ok(
      outcomes.every((outcome) => outcome === 'RESULT' || outcome === 'UNKNOWN'),
      outcomes.join(),
    );
    const unknown = outcomes.filter((outcome) => outcome === 'UNKNOWN').length;
    const words = `${unknown} UNKNOWN, ${inHand} in hand and ${passed} passed on`;
    assert.ok(unknown <= inHand + passed && (unknown > 0 || inHand === 0), words);
  } finally {
    await connection.close();
    await nodes.dispose();
  }
});

/** Calls in flight at the servers of this node. */
async function busy(node: NodeProcess): Promise<number> {
  const { servers } = await node.control<{ servers: { connections?: { inFlight: number }[] }[] }>('/api/v1/servers');
  return servers.flatMap(({ connections = [] }) => connections).reduce((sum, { inFlight }) => sum + inFlight, 0);
}

/** Calls that this node passed on to the other. */
async function passedOn(node: NodeProcess): Promise<number> {
  const counted = /^trunkline_cluster_calls_total\{direction="out"\} (\d+)$/m.exec(await node.gateway.metrics());
  return Number(counted?.[1] ?? 0);
}
