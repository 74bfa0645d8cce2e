import { hostname } from 'node:os';
import { loadNats } from '../../bus/nats/load-nats.ts';
import { NatsSharedLog } from '../../bus/nats/nats-shared-log.ts';
import { NatsSharedState } from '../../bus/nats/nats-shared-state.ts';
import { NatsWire } from '../../bus/nats/nats-wire.ts';
import { SignedBus } from '../../bus/signed-bus.ts';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import { SealedLog } from '../../bus/trust/sealed-log.ts';
import type { WireChange } from '../../bus/wire.ts';
import { systemClock } from '../../model/clock.ts';
import type { ClusterSettings } from '../../model/cluster-settings.ts';
import { systemRandom } from '../../model/random.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ClusterConnection } from './cluster-connection.ts';

/**
 * Connects to the NATS of a cluster. Returns after the first attempt, whatever came of it: without NATS a node serves what
 * it may without, and goes on trying (F28). What went wrong, and what the server lacks, is said at once and in clear words.
 */
export async function openCluster(settings: ClusterSettings, logger: Logger): Promise<ClusterConnection> {
  const { core, jetStream } = await loadNats();
  const node = settings.node ?? hostname();
  const { servers, credentials, tls } = settings;
  const wire = new NatsWire(core, { servers, name: `trunkline ${node}`, credentials, tls }, systemClock);
  const keys = new KeyRing(settings.secrets.map((secret) => secret.reveal()));
  const bus = new SignedBus({ wire, keys, clock: systemClock, random: systemRandom, logger });
  wire.onChange((change) => tell(change, wire, logger));
  bus.onEvent((event) => {
    if (event.type === 'refused') logger.warn('bus_message_refused', { subject: event.subject, reason: event.reason });
    if (event.type === 'slow_consumer') logger.warn('bus_slow_consumer', { ...event });
  });
  const [key, ...previousKeys] = keys.keys('sealing').map((sealing) => sealing.key);
  await wire.firstAttempt;
  if (wire.status.state !== 'connected') {
    logger.error('bus_not_connected', { servers, reason: wire.status.lastError });
  }
  const state = new NatsSharedState({ wire, core, jetStream, clock: systemClock, logger });
  const stored = new NatsSharedLog({ wire, clock: systemClock, reach: () => state.reach() });
  const judge = async (): Promise<void> => {
    const lack = wire.connected ? await state.lack() : null;
    if (lack !== null) logger.error('bus_server_lacks', { server: wire.status.server, lack });
  };
  await judge();
  wire.onChange(({ type }) => void (type === 'connected' && judge()));
  const log = new SealedLog(stored, keys, bus.peer);
  return {
    bus,
    state,
    log,
    node,
    key: key!,
    previousKeys,
    onBusLoss: settings.onBusLoss,
    wire,
    close() {
      log.close();
      return bus.close();
    },
  };
}

function tell(change: WireChange, wire: NatsWire, logger: Logger): void {
  if (change.type === 'disconnected') logger.warn('bus_disconnected', { reason: change.reason });
  if (change.type !== 'connected') return;
  const { server, version, lacks } = wire.status;
  logger.info(change.resync ? 'bus_reconnected' : 'bus_connected', { server, version });
  for (const lack of lacks) logger.error('bus_server_lacks', { server, version, lack });
}
