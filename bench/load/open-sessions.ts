import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from './client.ts';
import { heldKiB } from './held-memory.ts';
import type { HttpSocket } from './http-socket.ts';
import type { Finding, Job } from './job.ts';
import { rssKiB } from './process-usage.ts';

/** Sessions opened and ended before the first reading, so that the figures are of sessions, not of a cold heap. */
const WARM_UP_SESSIONS = 500;
const SETTLE_MS = 3000;

/** One endpoint under load. */
export interface Door {
  readonly job: Job;
  readonly sockets: readonly HttpSocket[];
  clients: Client[];
}

/** Memory before any session was opened and with all of them open. */
export type OpenedSessions = Pick<Finding, 'rssBeforeKiB' | 'rssOpenKiB' | 'heldBeforeKiB' | 'heldOpenKiB'>;

/** Opens the job's sessions at each door, each with its stream if asked for, and reads the memory before and after. */
export async function openSessions(job: Job, doors: readonly Door[]): Promise<OpenedSessions> {
  for (const door of doors) {
    for (const client of await openMany(door, WARM_UP_SESSIONS)) await client.end(door.sockets[0]!);
  }
  await delay(SETTLE_MS);
  const heldBeforeKiB = await held(job);
  const rssBeforeKiB = rssKiB(job.pids);
  for (const door of doors) {
    door.clients = await openMany(door, job.openSessions);
    if (job.streams) for (const client of door.clients) await openStream(door.job, client);
  }
  await delay(SETTLE_MS);
  const heldOpenKiB = await held(job);
  return { rssBeforeKiB, rssOpenKiB: rssKiB(job.pids), heldBeforeKiB, heldOpenKiB };
}

async function held({ collects, pids }: Job): Promise<number> {
  return collects ? heldKiB(pids) : 0;
}

/** Each client makes one call, so that its upstream state counts in the memory and not in the measured time. */
async function openMany({ job, sockets }: Door, count: number): Promise<Client[]> {
  const clients = Array.from({ length: count }, () => new Client(job));
  await Promise.all(
    sockets.map(async (socket, index) => {
      for (let at = index; at < count; at += sockets.length) {
        const client = clients[at]!;
        await client.open(socket);
        const problem = await new Promise<string | null>((resolve) => client.call(socket, resolve));
        if (problem !== null) throw new Error(problem);
      }
    }),
  );
  return clients;
}

/** Opens the client's stream on a connection of its own and waits for the head of the answer. */
function openStream(job: Job, client: Client): Promise<void> {
  const url = new URL(job.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(url.port), url.hostname, () => socket.write(client.messages.stream()));
    socket.once('data', (head: Buffer) => {
      if (head.toString('latin1', 9, 12) === '200') resolve();
      else reject(new Error(`stream: ${head.toString('latin1', 0, 100)}`));
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the stream was closed')));
    socket.on('data', () => undefined);
  });
}
