import { setTimeout as sleep } from 'node:timers/promises';
import { HttpSocket } from '../../bench/load/http-socket.ts';
import { inLanes, LeanClient, timedCalls } from './lean-client.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

interface Size {
  readonly sessions: number;
  readonly calls: number;
}

const FULL: Size = { sessions: 10_000, calls: 3_000 };

/** The scenario at any size; `npm test` runs it small. */
export async function openSessions({ say }: Pick<Run, 'say'>, { sessions, calls }: Size): Promise<Outcome> {
  const gateway = new ProbedGateway();
  const clients: LeanClient[] = [];
  let closed = 0;
  try {
    await gateway.start(
      { one: gateway.bench.stdio('one', 'stateful', { isolation: 'shared' }) },
      { sessions: { max: 20_000, maxPerPrincipal: 20_000 }, log: { level: 'warn' } },
    );
    const caller = new LeanClient(gateway.url);
    const socket = new HttpSocket(gateway.url);
    await caller.open(socket);
    await timedCalls(caller, socket, calls);
    const empty = await timedCalls(caller, socket, calls);
    const before = await gateway.probe();
    const sockets = Array.from({ length: 16 }, () => new HttpSocket(gateway.url));
    await inLanes(sessions, sockets.length, async (i, lane) => {
      const client = new LeanClient(gateway.url);
      clients.push(client);
      const status = await client.open(sockets[lane]!);
      if (status !== 200) throw new Error(`session ${i} was answered ${status}`);
      await client.listen(() => closed++);
      if (i % 2_000 === 0) say(`${i} sessions`);
    });
    await sleep(3_000);
    const after = await gateway.probe();
    const peakRss = gateway.rssBytes();
    const loaded = await timedCalls(caller, socket, calls);
    const closedMeanwhile = closed;
    socket.close();
    for (const one of sockets) one.close();
    return {
      figures: [
        figure('open sessions with a stream', sessions, ''),
        figure('resident memory of each', (peakRss - before.rssBytes) / sessions / 1024, 'KiB', 32),
        figure('heap of each', (after.heapBytes - before.heapBytes) / sessions / 1024, 'KiB'),
        figure('call on the empty node, p50', percentile(empty, 50), 'ms'),
        figure('call on the empty node, p99', percentile(empty, 99), 'ms'),
        figure('call beside the sessions, p50', percentile(loaded, 50), 'ms'),
        figure('call beside the sessions, p99', percentile(loaded, 99), 'ms'),
        figure('p99 beside them over p99 without', percentile(loaded, 99) / percentile(empty, 99), '×', 3),
        figure('streams that did not stay open', closedMeanwhile, '', 0),
      ],
      broken: [],
    };
  } finally {
    for (const client of clients) client.hangUp();
    await gateway.bench.dispose();
  }
}

export const G9: Proof = {
  id: 'G9',
  group: 'soak',
  claim:
    '10 000 open sessions with SSE on one node take ≤ 32 KiB RSS each, and p99 of a call is ≤ 3 × that of the empty node (F19)',
  shortened: null,
  run: (run) => openSessions(run, FULL),
};
