import type { StreamInfo } from '@nats-io/jetstream';
import { apiCode, type NatsStateDeps, NO_REPLICAS, NO_STREAM, REPLICAS, type Reach } from './jetstream.ts';

const RETRY_MS = 60_000;

interface StreamReplicasDeps extends Pick<NatsStateDeps, 'wire' | 'clock' | 'logger'> {
  readonly reach: () => Promise<Reach>;
}

/**
 * Raises streams with fewer replicas than intended: JetStream may not have met all servers at the start. Looks at each reading,
 * connection and minute.
 */
export class StreamReplicas {
  readonly #deps: StreamReplicasDeps;
  readonly #few = new Set<string>();
  readonly #warned = new Set<string>();
  #raising = false;
  #stopRetry: () => void = () => {};

  constructor(deps: StreamReplicasDeps) {
    this.#deps = deps;
    deps.wire.onChange(({ type }) => {
      if (type === 'connected') void this.#raiseAll();
    });
  }

  /** In the background. */
  look({ connection }: Reach, { config }: StreamInfo): void {
    if (config.num_replicas >= REPLICAS || connection.info?.cluster === undefined) {
      this.#few.delete(config.name);
      return;
    }
    this.#few.add(config.name);
    void this.#raiseAll();
  }

  /** One by one: a stream has no leader for a moment. */
  async #raiseAll(): Promise<void> {
    const { wire, clock } = this.#deps;
    if (this.#raising) return;
    this.#raising = true;
    this.#stopRetry();
    for (const name of this.#few) await this.#raise(name);
    this.#raising = false;
    if (this.#few.size > 0 && wire.status.state !== 'closed') {
      this.#stopRetry = clock.after(RETRY_MS, () => void this.#raiseAll());
    }
  }

  async #raise(name: string): Promise<void> {
    const { wire, logger } = this.#deps;
    if (!wire.connected) return;
    let replicas = 0;
    try {
      const { manager } = await this.#deps.reach();
      const { config } = await manager.streams.info(name);
      replicas = config.num_replicas;
      if (replicas < REPLICAS) await manager.streams.update(name, { ...config, num_replicas: REPLICAS });
      this.#few.delete(name);
      if (replicas < REPLICAS || this.#warned.has(name)) logger?.info('stream_replicas_raised', { stream: name });
      this.#warned.delete(name);
    } catch (error) {
      if ([NO_STREAM, NO_REPLICAS].includes(apiCode(error))) this.#few.delete(name);
      else if (replicas > 0 && wire.connected) this.#tell(name, replicas, error);
    }
  }

  #tell(stream: string, replicas: number, error: unknown): void {
    if (this.#warned.has(stream)) return;
    this.#warned.add(stream);
    this.#deps.logger?.warn('stream_replicas_few', {
      stream,
      replicas,
      wanted: REPLICAS,
      reason: error instanceof Error ? error.message : String(error),
      advice: `let ${REPLICAS} servers with JetStream run in the NATS cluster; until then one of them is a single point of failure`,
    });
  }
}
