import { setTimeout as delay } from 'node:timers/promises';
import { Client } from './load/client.ts';
import { HttpSocket } from './load/http-socket.ts';
import type { Job } from './load/job.ts';

/** Asks in a session of its own until the whole list is there; resolves with how long that took. */
export async function untilList(url: string, tools: number, patienceMs: number): Promise<number> {
  const begunAt = performance.now();
  const client = new Client({ url, era: 'stateful', tools } as Job);
  const socket = new HttpSocket(new URL(url));
  try {
    await client.open(socket);
    for (;;) {
      const problem = await new Promise<string | null>((resolve) => client.list(socket, resolve));
      const tookMs = performance.now() - begunAt;
      if (problem === null) return tookMs;
      if (tookMs > patienceMs) throw new Error(`no whole list after ${tookMs} ms: ${problem}`);
      await delay(5);
    }
  } finally {
    socket.close();
  }
}
