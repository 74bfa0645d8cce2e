/** Some of the nodes of `cluster-scale`, in one process: gateways as programs embed them. */
import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { createGateway, type Gateway } from '../../src/index.ts';
import { SECRET } from './sizes.ts';
import { serve } from './worker.ts';

/** Log events that mean that the figures are those of a cluster in distress. */
const DISTRESS = ['node_fenced', 'node_gone', 'event_loop_blocked', 'offer_not_read'];

const gateways = new Map<string, Gateway>();
const distress: Record<string, number> = {};

const functions = {
  async start(node: string, nats: string, servers: Record<string, object>): Promise<string> {
    const gateway = await createGateway({
      config: { cluster: { nats, node, secret: SECRET } },
      servers: servers as never,
      logger: ({ event }) => {
        if (DISTRESS.includes(event)) distress[event] = (distress[event] ?? 0) + 1;
      },
    });
    gateways.set(node, gateway);
    await gateway.ready();
    return (await gateway.listen({ port: 0, controlPort: 0 })).mcpUrl;
  },
  async restart(node: string, server: string): Promise<string> {
    return (await gateways.get(node)!.restart(server)).state;
  },
  async tools(node: string): Promise<number> {
    return (await gateways.get(node)!.tools()).length;
  },
  distress: () => distress,
  memoryMiB: () => process.memoryUsage().rss / 2 ** 20,
  /** A CPU profile of the process, written to the file. */
  async profile(file: string, ms: number): Promise<void> {
    const session = new Session();
    session.connect();
    await session.post('Profiler.enable');
    await session.post('Profiler.start');
    await delay(ms);
    const { profile } = await session.post('Profiler.stop');
    session.disconnect();
    writeFileSync(file, JSON.stringify(profile));
  },
};

export type NodesFunctions = typeof functions;

serve(functions);
