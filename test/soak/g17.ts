import { setTimeout as sleep } from 'node:timers/promises';
import { FaultBench, type Servers, until } from '../faults/fault-bench.ts';
import { LedgerHttpProcess } from '../faults/ledger/ledger-process.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const PIPES = 30;
const REMOTES = 70;
const ROUNDS = 40;
const CLIENTS = 16;
const CHANGED_PIPE = 'pipe0';
const CHANGED_REMOTE = 'remote0';

/**
 * A hundred servers, thirty of them processes, and clients that call all but two of them without a pause. One of the two
 * is changed in the file again and again, in a setting of its connections.
 */
async function run({ say, short }: Run): Promise<Outcome> {
  const bench = new FaultBench(null);
  const far = await LedgerHttpProcess.start(bench.ledger('far'), 'stateless');
  try {
    const servers: Servers = {};
    for (let i = 0; i < PIPES; i++) servers[`pipe${i}`] = bench.stdio(`pipe${i}`, 'stateful', { isolation: 'shared' });
    for (let i = 0; i < REMOTES; i++) servers[`remote${i}`] = { type: 'http', url: `${far.url}/${i}` };
    await bench.start(servers);
    await bench.gateway.ready();
    const others = Object.keys(servers).filter((name) => name !== CHANGED_PIPE && name !== CHANGED_REMOTE);
    const crowd = await Promise.all(
      Array.from({ length: CLIENTS }, (_, i) => bench.opened(`c${i}`, i % 2 === 0 ? 'stateless' : 'stateful')),
    );
    const watcher = await bench.opened('watcher', 'stateless');
    let running = true;
    let n = 0;
    const loops = crowd.map(async (client) => {
      while (running) await client.call(`${others[n++ % others.length]}__unsafe`);
    });
    const appliedMs: number[] = [];
    const servedMs: number[] = [];
    const pidsBefore = await pidsOf(bench, others);
    for (let round = 1; round <= (short ? 10 : ROUNDS); round++) {
      await sleep(200);
      const version = await versionOf(bench);
      const pipe = round % 2 === 0;
      if (pipe) {
        servers[CHANGED_PIPE] = bench.stdio(CHANGED_PIPE, 'stateful', {
          isolation: 'shared',
          env: { ROUND: `${round}` },
        });
      } else servers[CHANGED_REMOTE] = { type: 'http', url: `${far.url}/0`, headers: { 'x-round': `${round}` } };
      const before = performance.now();
      bench.gateway.rewrite({ mcpServers: servers });
      await until('the change is in force', async () => (await versionOf(bench)) > version);
      appliedMs.push(performance.now() - before);
      if (!pipe) continue;
      const answer = new RegExp(` ${round}$`);
      await until('the new process answers', async () => {
        const said = await watcher.call(`${CHANGED_PIPE}__environment`, { text: 'ROUND' });
        return answer.test(said.reason);
      });
      servedMs.push(performance.now() - before);
    }
    running = false;
    await Promise.all(loops);
    const pidsAfter = await pidsOf(bench, others);
    const moved = others.filter((name) => `${pidsBefore[name]}` !== `${pidsAfter[name]}`);
    const calls = bench.history.attempts.filter(({ client }) => client !== 'watcher');
    const dropped = calls.filter(({ ending }) => ending !== 'RESULT');
    const violations = bench.violations([...Array.from({ length: PIPES }, (_, i) => `pipe${i}`), 'far']);
    say(`${appliedMs.length} changes beside ${calls.length} calls`);
    return {
      figures: [
        figure('servers', PIPES + REMOTES, ''),
        figure('changes of one of them', appliedMs.length, ''),
        figure('calls of the others', calls.length, ''),
        figure('calls of the others that were dropped', dropped.length, '', 0),
        figure('processes of the others that were replaced', moved.length, '', 0),
        figure('from the write to the change in force, p50', percentile(appliedMs, 50), 'ms'),
        figure('from the write to the change in force, longest', Math.max(...appliedMs), 'ms', 500),
        figure('until the new process has started and answered, p50', percentile(servedMs, 50), 'ms'),
        figure('until the new process has started and answered, longest', Math.max(...servedMs), 'ms'),
        figure('violations of the ledger', violations.length, '', 0),
      ],
      broken: [
        ...dropped.map(({ call, ending, reason }) => `${call}: ${ending} ${reason}`),
        ...violations.map(({ rule, call, text }) => `(${rule}) ${call}: ${text}`),
      ].slice(0, 20),
    };
  } finally {
    await far.kill();
    await bench.dispose();
  }
}

async function versionOf(bench: FaultBench): Promise<number> {
  return (await bench.gateway.control<{ configVersion: number }>('/api/v1/gateway')).configVersion;
}

async function pidsOf(bench: FaultBench, names: readonly string[]): Promise<Record<string, number[]>> {
  const { servers } = await bench.gateway.control<{
    servers: { name: string; connections: { pid: number | null }[] }[];
  }>('/api/v1/servers');
  return Object.fromEntries(
    servers
      .filter(({ name }) => names.includes(name))
      .map(({ name, connections }) => [name, connections.flatMap(({ pid }) => pid ?? [])]),
  );
}

export const G17: Proof = {
  id: 'G17',
  group: 'faults',
  claim: 'A change of one of 100 servers in the file drops no call of the other 99 and is in force within 500 ms (F37)',
  shortened: '30 of 40 changes',
  run,
};
