/** The load generator, a process of its own: does the job of its argument, prints each finding as one line of JSON. */
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from './client.ts';
import type { HttpSocket } from './http-socket.ts';
import type { Finding, Job } from './job.ts';
import { Meter } from './meter.ts';
import { type Door, openSessions } from './open-sessions.ts';
import { rssKiB } from './process-usage.ts';
import { Worker } from './workers.ts';

/** The limit of the warm-up, even if too few operations were completed. */
const MAX_WARM_UP_MS = 60_000;
const LOOK_MS = 50;
const NO_MEMORY = { rssBeforeKiB: 0, rssOpenKiB: 0, heldBeforeKiB: 0, heldOpenKiB: 0 };
const job = JSON.parse(process.argv[2]!) as Job;
if (job.kind === 'sessions') tell(await measureSessions());
else await measureCalls();
process.exit();

/** Calls or lists on all connections at once; for `open`, with many sessions open meanwhile. */
async function measureCalls(): Promise<void> {
  const meter = new Meter(job);
  const doors = [job.url, ...job.alsoUrls].map((url): Door => {
    const its = { ...job, url };
    return { job: its, sockets: Array.from({ length: job.connections }, () => new Client(its).socket()), clients: [] };
  });
  const memory =
    job.kind === 'open' ? await openSessions(job, doors) : { ...NO_MEMORY, rssBeforeKiB: rssKiB(job.pids) };
  if (job.kind !== 'open') await Promise.all(doors.map(openFew));
  const workers = doors.flatMap((door) => workersOf(door, meter));
  for (const worker of workers) worker.run();
  const warm = await warmUp(meter);
  const measure = async (): Promise<void> => {
    meter.start();
    await delay(job.measureMs);
    const result = meter.finish(memory);
    await Promise.all(workers.map((worker) => worker.stop()));
    tell({ ...result, wrong: meter.wrong, warm });
  };
  await measure();
  if (job.leadMs > 0) {
    for await (const _turn of createInterface({ input: process.stdin })) {
      for (const worker of workers) worker.run();
      await delay(job.leadMs);
      await measure();
    }
  }
  if (job.kind !== 'open' && job.era === 'stateful') {
    await Promise.all(
      doors.flatMap(({ clients, sockets }) => clients.map((client, index) => client.end(sockets[index]!))),
    );
  }
}

function tell(finding: Finding): void {
  console.log(JSON.stringify(finding));
}

async function openFew(door: Door): Promise<void> {
  door.clients = door.sockets.slice(0, job.maxSessions).map(() => new Client(door.job));
  await Promise.all(door.clients.map((client, index) => client.open(door.sockets[index]!)));
}

function workersOf({ job, sockets, clients }: Door, meter: Meter): Worker[] {
  return sockets.map((socket, index) => {
    const own = clients.filter((_, number) => number % job.connections === index);
    return new Worker(job, own.length > 0 ? own : [clients[index % clients.length]!], socket, meter);
  });
}

/** Whole sessions: initialize, initialized, one call, DELETE. */
async function measureSessions(): Promise<Finding> {
  const meter = new Meter(job);
  let stopped = false;
  const loop = async (socket: HttpSocket) => {
    while (!stopped && meter.wrong === 0) {
      const begunAt = performance.now();
      const client = new Client(job);
      try {
        await client.open(socket);
        const problem = await new Promise<string | null>((resolve) => client.call(socket, resolve));
        meter.count(begunAt, (await client.end(socket)) ?? problem);
      } catch (error) {
        meter.count(begunAt, String(error));
      }
    }
  };
  const loops = Array.from({ length: job.connections }, () => loop(new Client(job).socket()));
  const warm = await warmUp(meter);
  meter.start();
  await delay(job.measureMs);
  const result = meter.finish(NO_MEMORY);
  stopped = true;
  await Promise.all(loops);
  return { ...result, wrong: meter.wrong, warm };
}

/** True if the warm-up completed enough operations. */
async function warmUp(meter: Meter): Promise<boolean> {
  const end = performance.now() + MAX_WARM_UP_MS;
  await delay(job.warmUpMs);
  while (meter.right < job.warmUpOperations && meter.wrong === 0 && performance.now() < end) await delay(LOOK_MS);
  return meter.right >= job.warmUpOperations;
}
