import { KeyRing } from '../bus/key-ring.ts';
import { loadNats } from '../bus/nats/load-nats.ts';
import type { NatsOptions } from '../bus/nats/nats-options.ts';
import { NatsSharedState } from '../bus/nats/nats-shared-state.ts';
import { NatsWire } from '../bus/nats/nats-wire.ts';
import { SignedBus } from '../bus/signed-bus.ts';
import { systemClock } from '../model/clock.ts';
import { systemRandom } from '../model/random.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ClusterConnection } from './cluster-connection.ts';

export interface NatsMembership {
  /** The operator's name for this node. */
  readonly node: string;
  readonly nats: NatsOptions;
  /** The one in force first. */
  readonly secrets: readonly string[];
}

/** The first connection is waited for so long; without it the node begins all the same, and goes on looking for it. */
const FIRST_MS = 2_000;

/** Joins a cluster over NATS. Rejects with GatewayError when the client for it is not installed. */
export async function openNatsConnection(membership: NatsMembership, logger: Logger): Promise<ClusterConnection> {
  const { node, nats, secrets } = membership;
  const keys = new KeyRing(secrets);
  const { core, jetStream } = await loadNats();
  const wire = new NatsWire(core, nats, systemClock);
  const bus = new SignedBus({ wire, keys, clock: systemClock, random: systemRandom, logger });
  bus.onEvent((event) => {
    if (event.type === 'disconnected') logger.warn('bus_disconnected', { reason: event.reason });
    else if (event.type === 'connected') tellConnected(logger, bus, event.resync);
    else if (event.type === 'slow_consumer') logger.warn('bus_slow_consumer', { ...event });
  });
  await Promise.race([wire.firstAttempt, new Promise((resolve) => systemClock.after(FIRST_MS, () => resolve(null)))]);
  const state = new NatsSharedState({ wire, core, jetStream, clock: systemClock });
  if (bus.status.state === 'connected') tellConnected(logger, bus, false);
  return { bus, state, node, key: keys.keys('sealing')[0]!.key, close: () => bus.close() };
}

function tellConnected(logger: Logger, { status }: SignedBus, again: boolean): void {
  const { server, version, lacks } = status;
  logger.info('bus_connected', { server, version, again });
  for (const lack of lacks) logger.error('bus_lacks', { lack });
}
