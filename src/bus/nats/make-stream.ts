import type { StreamConfig, StreamInfo } from '@nats-io/jetstream';
import type { Reach } from './nats-reach.ts';
import { onceMade } from './once-made.ts';
import { apiCode, NO_STREAM, stateFailure } from './state-failure.ts';
import { REPLICAS } from './stream-replicas.ts';

/**
 * Makes a stream, or brings the settings of one that is there in line with what is wanted. Several nodes may do so at once.
 * Resolves with when it was made; rejects with GatewayError.
 */
export async function makeStream(
  reach: Reach,
  name: string,
  wanted: Partial<StreamConfig>,
  same: (config: StreamConfig) => boolean,
): Promise<string> {
  const seen = (await found(reach, name, wanted, same)) ?? (await made(reach, name, wanted));
  const stream = await onceMade(reach, seen).catch((error: unknown) => {
    throw stateFailure(error, 'read');
  });
  reach.replicas.look(reach, stream);
  return stream.created;
}

/** Null when there is none. */
async function found(
  { manager }: Reach,
  name: string,
  wanted: Partial<StreamConfig>,
  same: (config: StreamConfig) => boolean,
): Promise<StreamInfo | null> {
  try {
    const stream = await manager.streams.info(name);
    if (!same(stream.config)) await manager.streams.update(name, { ...stream.config, ...wanted });
    return stream;
  } catch (error) {
    if (apiCode(error) === NO_STREAM) return null;
    throw stateFailure(error, 'read');
  }
}

async function made({ manager, connection }: Reach, name: string, wanted: Partial<StreamConfig>): Promise<StreamInfo> {
  if (connection.info?.cluster !== undefined) {
    try {
      return await manager.streams.add({ ...wanted, name, num_replicas: REPLICAS });
    } catch (error) {
      // Without an answer it may have been made, or the servers have not found each other yet: whoever wants it asks again.
      if (apiCode(error) === 0) throw stateFailure(error, 'read');
    }
  }
  // Fewer servers than replicas; or somebody else has just made it.
  try {
    return await manager.streams.add({ ...wanted, name, num_replicas: 1 });
  } catch (error) {
    const there = await manager.streams.info(name).catch(() => null);
    if (there === null) throw stateFailure(error, 'read');
    return there;
  }
}
