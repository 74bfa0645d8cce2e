import { hostname } from 'node:os';
import { NatsSharedLog } from '../../bus/nats/nats-shared-log.ts';
import { NatsSharedState } from '../../bus/nats/nats-shared-state.ts';
import { loadNats, NatsWire } from '../../bus/nats/nats-wire.ts';
import { SignedBus } from '../../bus/signed-bus.ts';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import { SealedLog } from '../../bus/trust/sealed-log.ts';
import type { WireChange } from '../../bus/wire.ts';
import { ClusterIdentity } from '../../cluster/lease/cluster-identity.ts';
import { systemClock } from '../../model/clock.ts';
import type { ClusterSettings } from '../../model/desired-state.ts';
import { systemRandom } from '../../model/random.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ClusterConnection, Messenger } from './cluster-connection.ts';

export async function openCluster(settings: ClusterSettings, logger: Logger): Promise<ClusterConnection> {
  const { node, onBusLoss, sharedProcesses, publicSubjects, publicPrincipal } = settings;
  return joinCluster(
    await openNats(settings, logger),
    {
      node: node ?? hostname(),
      onBusLoss,
      sharedProcesses,
      ...(publicSubjects ? { publicSubjects: { principal: publicPrincipal } } : {}),
    },
    logger,
  );
}

/**
 * Connects to NATS. Returns after the first attempt, also if it failed: the node then serves what it can without NATS and retries
 * (F28). Logs the failure, or what the server lacks.
 */
export async function openNats(
  settings: Omit<ClusterSettings, 'publicSubjects' | 'publicPrincipal'>,
  logger: Logger,
): Promise<Messenger> {
  const { name: cluster, node, servers, credentials, tls, secrets, streamCopiesBytes: maxBytes } = settings;
  const { core, jetStream } = await loadNats();
  const name = `trunkline ${node ?? hostname()}`;
  const wire = new NatsWire(core, { servers, name, cluster, credentials, tls }, systemClock);
  wire.onChange((change) => logChange(change, wire, logger));
  await wire.firstAttempt;
  if (wire.status.state !== 'connected') {
    logger.error('bus_not_connected', { servers, reason: wire.status.lastError });
  }
  const state = new NatsSharedState({ wire, core, jetStream, clock: systemClock, logger });
  const log = new NatsSharedLog(state, maxBytes);
  const judge = async (): Promise<void> => {
    const problem = wire.connected ? await state.jetStreamProblem() : null;
    if (problem !== null) logger.error('bus_server_lacks', { server: wire.status.server, lack: problem });
  };
  await judge();
  wire.onChange(({ type }) => void (type === 'connected' && judge()));
  return { wire, state, log, name: cluster, secrets: secrets.map((secret) => secret.reveal()) };
}

/** Joins this node to the cluster that the messenger reaches. Throws RangeError for a secret that is too short. */
export function joinCluster(
  { wire, state, log, name = null, secrets }: Messenger,
  settings: Pick<ClusterConnection, 'node' | 'onBusLoss' | 'sharedProcesses' | 'publicSubjects'>,
  logger: Logger,
): ClusterConnection {
  const keys = new KeyRing(secrets, name);
  const bus = new SignedBus({ wire, keys, clock: systemClock, random: systemRandom, logger });
  bus.onEvent((event) => {
    if (event.type === 'refused') logger.warn('bus_message_refused', { subject: event.subject, reason: event.reason });
    if (event.type === 'slow_consumer') logger.warn('bus_slow_consumer', { ...event });
  });
  const [key, ...previousKeys] = keys.keys('sealing').map((sealing) => sealing.key);
  return {
    ...settings,
    name,
    bus,
    state,
    identity: new ClusterIdentity(state, keys, { clock: systemClock, logger }),
    ...(log === undefined ? {} : { log: new SealedLog(log, keys, bus.peer) }),
    key: key!,
    previousKeys,
    wire,
    close() {
      log?.close();
      return bus.close();
    },
  };
}

function logChange(change: WireChange, wire: NatsWire, logger: Logger): void {
  if (change.type === 'disconnected') logger.warn('bus_disconnected', { reason: change.reason });
  if (change.type !== 'connected') return;
  const { server, version, lacks } = wire.status;
  logger.info(change.resync ? 'bus_reconnected' : 'bus_connected', { server, version });
  for (const problem of lacks) logger.error('bus_server_lacks', { server, version, lack: problem });
}
