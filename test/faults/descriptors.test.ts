import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { FaultBench, until } from './fault-bench.ts';
import type { Attempt } from './ledger/history.ts';
import { entriesOf, executed } from './ledger/ledger-entry.ts';

const LIMIT = 256;
const CLIENTS = 500;
/** The part of the limit that connections of clients may take. */
const MOST = Math.floor(LIMIT * 0.6);

test('fault:F39 256 descriptors and 500 clients: running work goes on, starts are NOT_SENT, the operator can connect, all recovers', async (t) => {
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' });
  } catch {
    t.skip('no prlimit here');
    return;
  }
  const bench = new FaultBench(t);
  const servers = { one: bench.stdio('one'), own: bench.stdio('own', 'stateful', { isolation: 'session' }) };
  await bench.start(servers, {}, {}, ['prlimit', `--nofile=${LIMIT}:${LIMIT}`]);
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const other = await bench.opened('other');
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  const slow = other.call('one__slow', { ms: 3_000 });
  await until('it runs', () => entriesOf(bench.ledger('one'), 'executed').length === 2);

  const crowd = new Crowd();
  t.after(() => crowd.leave());
  await crowd.come(Number(new URL(bench.gateway.mcpUrl).port));
  assert.ok(crowd.open <= MOST, `${crowd.open} connections were taken`);
  assert.ok(crowd.open > MOST / 2, `only ${crowd.open} connections were taken`);
  // New sessions use the open connection, each with a process of its own, until there are no descriptors left.
  const first = client.sessionId;
  const sessions: string[] = [];
  let refused: Attempt | null = null;
  while (refused === null && sessions.length < LIMIT) {
    await client.open();
    sessions.push(client.sessionId!);
    const attempt = await client.call('own__unsafe');
    if (attempt.ending !== 'RESULT') refused = attempt;
  }
  assert.ok(refused !== null && sessions.length < 40, `${sessions.length} processes were started`);
  assert.equal(refused.ending, 'NOT_SENT', refused.reason);
  assert.match(refused.reason, /open files/);
  assert.equal(executed(bench.ledger('own'), refused.call), 0);
  // On a connection of its own, which needs a descriptor of the reserve.
  assert.equal(await statusOf(bench.gateway.controlUrl), 401);
  client.sessionId = first;
  for (let i = 0; i < 5; i++) {
    const { state } = await bench.status('one');
    assert.equal(state, 'running');
    const beside = await client.call('one__unsafe');
    assert.equal(beside.ending, 'RESULT', beside.reason);
  }
  const patient = await slow;
  assert.equal(patient.ending, 'RESULT', patient.reason);

  crowd.leave();
  await until('processes can be started again', async () => (await client.call('own__unsafe')).ending === 'RESULT');
  await bench.opened('late');
  assert.deepEqual(bench.violations(['one', 'own']), []);
});

function statusOf(url: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = get(new URL('/api/v1/servers', url), { agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('error', reject);
  });
}

/** Connections that send nothing. */
class Crowd {
  readonly #sockets = new Set<Socket>();

  get open(): number {
    return this.#sockets.size;
  }

  /** Resolves when the gateway has accepted or refused each of them. */
  async come(port: number): Promise<void> {
    await Promise.all(Array.from({ length: CLIENTS }, () => this.#one(port)));
    let before = -1;
    // The gateway closes refused connections a little after they have connected.
    await until('no further connection is refused', async () => {
      const settled = before === this.open;
      before = this.open;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return settled && this.open <= MOST;
    });
  }

  leave(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #one(port: number): Promise<void> {
    return new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', resolve);
      this.#sockets.add(socket);
      socket.on('error', () => {}).on('end', () => socket.destroy());
      socket.on('close', () => {
        this.#sockets.delete(socket);
        resolve();
      });
      socket.resume();
    });
  }
}
