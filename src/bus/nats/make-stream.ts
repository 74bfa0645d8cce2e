import type { StreamConfig } from '@nats-io/jetstream';
import type { Reach } from './nats-reach.ts';
import { apiCode, NO_STREAM, stateFailure } from './state-failure.ts';

/** Servers of a NATS cluster that have a stream each. */
const MANY = 3;

/**
 * Makes a stream, or brings the settings of one that is there in line with what is wanted. Several nodes may do so at once.
 * Resolves with when it was made; rejects with GatewayError.
 */
export async function makeStream(
  { manager, connection }: Reach,
  name: string,
  wanted: Partial<StreamConfig>,
  same: (config: StreamConfig) => boolean,
): Promise<string> {
  try {
    const { config, created } = await manager.streams.info(name);
    if (!same(config)) await manager.streams.update(name, { ...config, ...wanted });
    return created;
  } catch (error) {
    if (apiCode(error) !== NO_STREAM) throw stateFailure(error, 'read');
  }
  // Fewer servers than replicas; or somebody else has just made it.
  if (connection.info?.cluster !== undefined) {
    const added = await manager.streams.add({ ...wanted, name, num_replicas: MANY }).catch(() => null);
    if (added !== null) return added.created;
  }
  try {
    const { created } = await manager.streams.add({ ...wanted, name, num_replicas: 1 });
    return created;
  } catch (error) {
    const made = await manager.streams.info(name).catch(() => null);
    if (made === null) throw stateFailure(error, 'read');
    return made.created;
  }
}
