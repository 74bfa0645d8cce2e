import type { StreamInfo } from '@nats-io/jetstream';
import { pause } from '../../model/clock.ts';
import type { Reach } from './nats-reach.ts';

/** When it was made, as nats-server 2.9 says of a stream that somebody is making in this very instant. */
const NOT_YET = '0001-01-01T00:00:00Z';
const AGAIN_MS = 10;
const ATTEMPTS = 100;

/** The stream as it is once it has been made: when that was tells one making of it from another. */
export async function onceMade(
  { manager, clock }: Pick<Reach, 'manager' | 'clock'>,
  seen: StreamInfo,
): Promise<StreamInfo> {
  let stream = seen;
  for (let attempt = 0; stream.created === NOT_YET; attempt++) {
    if (attempt === ATTEMPTS) throw new Error(`nats-server does not say when ${seen.config.name} was made`);
    await pause(clock, AGAIN_MS);
    stream = await manager.streams.info(seen.config.name);
  }
  return stream;
}
