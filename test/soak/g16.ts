import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpSocket } from '../../bench/load/http-socket.ts';
import { until } from '../faults/fault-bench.ts';
import { entriesOf } from '../faults/ledger/ledger-entry.ts';
import { inLanes, LeanClient, timedCalls } from './lean-client.ts';
import type { Probed } from './probe.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const MIB = 1024 * 1024;
const READERS = 1_000;
/** More than the kernel buffers for most clients that read nothing. */
const TIMES = 96;
const BYTES = 64 * 1024;
/** Beyond the 35 s in which they have to be cut. */
const WATCH_MS = 40_000;
/** Ends an answer. */
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

async function run({ say }: Run): Promise<Outcome> {
  const gateway = new ProbedGateway();
  const stalled: Socket[] = [];
  try {
    const isolation = { isolation: 'shared', timeoutMs: 300_000 };
    const servers = {
      one: gateway.bench.stdio('one', 'stateful', isolation),
      two: gateway.bench.stdio('two', 'stateful', isolation),
    };
    await gateway.start(servers, { log: { level: 'warn' } });
    const socket = new HttpSocket(gateway.url);
    const caller = new LeanClient(gateway.url);
    await caller.open(socket);
    const clients = Array.from({ length: READERS }, () => new LeanClient(gateway.url));
    const sockets = Array.from({ length: 8 }, () => new HttpSocket(gateway.url));
    await inLanes(READERS, sockets.length, async (i, lane) => void (await clients[i]!.open(sockets[lane]!)));
    for (const one of sockets) one.close();
    const alone = await timedCalls(caller, socket, 300);
    const idle = await gateway.probe();
    let peakRss = 0;
    const watch = setInterval(() => {
      peakRss = Math.max(peakRss, gateway.rssBytes());
    }, 50);
    const talks = (): number =>
      entriesOf(gateway.bench.ledger('one'), 'executed').filter(({ tool }) => tool === 'chatter').length;
    let begun = 0;
    /** One process serves all of them in turn; more waiting calls would be refused. */
    const listen = async (i: number): Promise<Socket> => {
      while (begun - talks() > 100) await sleep(100);
      begun++;
      const reader = connect(Number(gateway.url.port), gateway.url.hostname);
      reader.on('error', () => {});
      await new Promise((resolve) => reader.once('connect', resolve));
      reader.write(clients[i]!.toolCall(begun, 'chatter', `"times":${TIMES},"bytes":${BYTES}`, `t${begun}`));
      return reader;
    };
    // First the same with clients that read: the buffers of running streams are no cost of stalled readers.
    await inLanes(READERS, 20, async (i) => {
      const reader = await listen(i);
      await new Promise((resolve) => {
        reader.once('close', resolve);
        const end = lastBytes(reader);
        reader.on('data', () => (end().equals(LAST_CHUNK) ? reader.destroy() : null));
      });
    });
    const readPeak = peakRss;
    const read = begun;
    say(`${Math.round(readPeak / MIB)} MiB while clients read`);
    const before = await gateway.probe();
    peakRss = 0;
    await inLanes(READERS, 20, async (i) => {
      const reader = await listen(i);
      reader.pause();
      stalled.push(reader);
      await sleep(200);
      if (i % 200 === 0) say(`${i} readers stalled, ${Math.round(gateway.rssBytes() / MIB)} MiB`);
    });
    const beside = await timedCalls(caller, socket, 300);
    // The last reader stalls only when its call has run.
    await until('the server has run all calls', () => talks() === read + READERS, 240_000);
    const lastBegun = performance.now();
    const held = await gateway.probe();
    // The remaining connections are that of the caller and the streams.
    let left = gateway.connections();
    let cutMs = 0;
    while (left > 2 && performance.now() - lastBegun < WATCH_MS) {
      await sleep(100);
      const open = gateway.connections();
      if (open < left) cutMs = performance.now() - lastBegun;
      left = open;
    }
    // The kernel buffers everything for some clients: they are answered, and their connections are idle.
    const answered = await wholeAnswers(stalled);
    clearInterval(watch);
    const after = await gateway.probe();
    const late = await timedCalls(caller, socket, 100);
    socket.close();
    return {
      figures: [
        figure('stalled streams', READERS, ''),
        figure('sent to each', (TIMES * BYTES) / MIB, 'MiB'),
        figure('resident memory, idle', idle.rssBytes / MIB, 'MiB'),
        figure('resident memory at its peak, while clients read the same', readPeak / MIB, 'MiB'),
        figure('resident memory at its peak, while they stall', peakRss / MIB, 'MiB'),
        figure('more than while they read', (peakRss - readPeak) / MIB, 'MiB', 64),
        // Without a limit: it includes memory that the allocator kept from the flood.
        figure('resident memory more than before they stalled', (held.rssBytes - before.rssBytes) / MIB, 'MiB'),
        figure('heap and buffers for them, after GC', (live(held) - live(before)) / MIB, 'MiB', 64),
        figure('heap after GC over base, when all were cut', (after.heapBytes - before.heapBytes) / MIB, 'MiB'),
        figure('from the last stall to the last cut', cutMs / 1_000, 's', 35),
        figure('streams that were not cut', Math.max(0, left - 2 - answered), '', 0),
        figure('another’s call, p99, alone', percentile(alone, 99), 'ms'),
        figure('another’s call, p99, beside them', percentile(beside, 99), 'ms'),
        figure('another’s call, p99, after', percentile(late, 99), 'ms'),
      ],
      broken: [],
    };
  } finally {
    for (const reader of stalled) reader.destroy();
    await gateway.bench.dispose();
  }
}

/** How many of the stalled readers receive a whole answer when they read. */
async function wholeAnswers(readers: readonly Socket[]): Promise<number> {
  const ends = readers.map((reader) => lastBytes(reader));
  await sleep(3_000);
  return ends.filter((end) => end().equals(LAST_CHUNK)).length;
}

/** Resumes reading; the returned function gives the last bytes received. */
function lastBytes(reader: Socket): () => Buffer {
  let tail = Buffer.alloc(0);
  reader.on('data', (bytes: Buffer) => {
    tail = Buffer.concat([tail, bytes.subarray(-LAST_CHUNK.length)]).subarray(-LAST_CHUNK.length);
  });
  reader.resume();
  return () => tail;
}

function live({ heapBytes, externalBytes }: Probed): number {
  return heapBytes + externalBytes;
}

export const G16: Proof = {
  id: 'G16',
  group: 'soak',
  claim: '1 000 stalled streams take ≤ 64 MiB in all and are cut within 35 s (F16, F18)',
  shortened: null,
  run,
};
