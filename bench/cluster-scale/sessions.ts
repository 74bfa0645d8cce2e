/** Writes sessions into the store of the cluster, with the code that a node uses. */
import { natsMessenger } from '../../src/app/embedding/open-node.ts';
import { SignedBus } from '../../src/bus/signed-bus.ts';
import { KeyRing } from '../../src/bus/trust/key-ring.ts';
import { SharedSessionRecords } from '../../src/cluster/sessions/shared-session-records.ts';
import { systemClock } from '../../src/model/clock.ts';
import { systemRandom } from '../../src/model/random.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { SECRET } from './sizes.ts';
import { serve } from './worker.ts';

const AT_ONCE = 256;

const functions = {
  async write(nats: string, from: number, to: number): Promise<void> {
    const { wire, state } = await natsMessenger({ nats, secret: SECRET });
    const keys = new KeyRing([SECRET]);
    const bus = new SignedBus({ wire, keys, clock: systemClock, random: systemRandom, logger: Logger.silent() });
    const records = new SharedSessionRecords({
      bus,
      state,
      nodes: { others: () => [], isGone: () => false },
      clock: systemClock,
      logger: Logger.silent(),
    });
    let next = from;
    const writer = async (): Promise<void> => {
      while (next < to) await records.putEverywhere(sessionRecord(next++));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, writer));
    await records.close();
    await bus.close();
  },
};

function sessionRecord(n: number) {
  const now = Date.now();
  return {
    id: systemRandom.hex(16),
    principal: `agent-${n % 1_000}`,
    endpoint: '/mcp',
    revision: '2025-11-25',
    capabilities: '{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}',
    info: '{"name":"claude-code","version":"2.0.1"}',
    initialized: true,
    logLevel: null,
    createdAt: now,
    lastSeenAt: now,
  };
}

export type SessionsFunctions = typeof functions;

serve(functions);
