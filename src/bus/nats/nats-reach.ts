import type { JetStreamClient, JetStreamManager, StreamInfo } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { BucketOptions } from '../shared-state.ts';
import type { NatsCore, NatsJetStream } from './load-nats.ts';
import type { NatsWire } from './nats-wire.ts';

export interface NatsStateDeps {
  readonly wire: NatsWire;
  readonly core: NatsCore;
  readonly jetStream: NatsJetStream;
  readonly clock: Clock;
  /** Is told when NATS keeps what is shared at fewer servers than it should. */
  readonly logger?: Logger;
}

/** Looks after streams that fewer servers have than should. */
export interface SeenStreams {
  /** Somebody has just seen it. */
  look(reach: Reach, stream: StreamInfo): void;
}

/** JetStream on the connection that there is now. */
export interface Reach {
  readonly connection: NatsConnection;
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly replicas: SeenStreams;
  readonly clock: Clock;
}

/** What buckets stand on. */
export interface StreamMaker {
  readonly deps: NatsStateDeps;
  /** Rejects with GatewayError NOT_SENT when nothing can be asked. */
  reach(): Promise<Reach>;
  /** Makes the stream behind a bucket, or brings its settings in line. Returns which making of it this is. */
  makeStream(name: string, options: BucketOptions): Promise<string>;
}
