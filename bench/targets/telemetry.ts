import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serverUrl } from './direct.ts';
import type { Running, Target } from './target.ts';
import { startTrunkline } from './trunkline.ts';

export const OFF = 'nothing sent or logged';
export const NOTHING_SENT = 'nothing sent';
export const METRICS_SENT = 'metrics sent';
export const TRACED = 'traces at 1 %';

/**
 * The same gateway and server: without access lines, as it is by default, with metrics sent each second, and with one of a
 * hundred traces sent. Call records cannot be switched off.
 */
export const telemetry: readonly Target[] = [
  target(OFF, () => ({ log: { level: 'error' } })),
  target(NOTHING_SENT, () => ({})),
  target(METRICS_SENT, (otlp) => ({ telemetry: { metrics: { otlp, intervalMs: 1_000 } } })),
  target(TRACED, (otlp) => ({ telemetry: { traces: { otlp, sample: 0.01 } } })),
];

function target(name: string, settings: (otlp: string) => object): Target {
  return {
    name,
    named: true,
    maxSessions: Number.POSITIVE_INFINITY,
    canServe: (behind) => behind === 'stateful',
    start: (scene, behind) => startWith(serverUrl(scene, behind), settings),
  };
}

/** The receiver is in this process: its cost is not attributed to any target. */
async function startWith(url: string, settings: (otlp: string) => object): Promise<Running> {
  let posts = 0;
  const receiver = createServer((request, response) => {
    posts++;
    request.resume().once('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
  });
  await new Promise<void>((open) => receiver.listen(0, '127.0.0.1', open));
  const more = settings(`http://127.0.0.1:${(receiver.address() as AddressInfo).port}`);
  const running = await startTrunkline({ up: { type: 'http', url } }, 'server', more).catch((error: unknown) => {
    receiver.close();
    throw error;
  });
  return {
    ...running,
    async stop() {
      await running.stop();
      receiver.closeAllConnections();
      receiver.close();
      if (posts === 0 && 'telemetry' in more) throw new Error('no telemetry was sent, so there is nothing to measure');
    },
  };
}
