import { hash } from 'node:crypto';
import { NatsSharedLog } from '../../src/bus/nats/nats-shared-log.ts';
import { NatsSharedState } from '../../src/bus/nats/nats-shared-state.ts';
import { loadNats, NatsWire } from '../../src/bus/nats/nats-wire.ts';
import { KeyRing } from '../../src/bus/trust/key-ring.ts';
import { SealedLog } from '../../src/bus/trust/sealed-log.ts';
import { readOrphanedStream } from '../../src/cluster/streams/stream-copies.ts';
import { ANONYMOUS } from '../../src/model/client-profile.ts';
import { systemClock } from '../../src/model/clock.ts';
import type { OrphanedStream } from '../../src/model/stream-copies.ts';
import { SECRET } from './cluster-bench.ts';
import type { NatsServer } from './nats-server.ts';

/** The log of the streams of a cluster, as another node reads it. */
export class LeftLog implements AsyncDisposable {
  readonly #wire: NatsWire;
  readonly #log: SealedLog;

  private constructor(wire: NatsWire, log: SealedLog) {
    this.#wire = wire;
    this.#log = log;
  }

  static async open({ url }: NatsServer, maxBytes?: number): Promise<LeftLog> {
    const { core, jetStream } = await loadNats();
    const clock = systemClock;
    const wire = new NatsWire(core, { servers: [url], name: 'test', credentials: null, tls: null }, clock);
    await wire.firstAttempt;
    const state = new NatsSharedState({ wire, core, jetStream, clock });
    const stored = new NatsSharedLog(state, maxBytes);
    return new LeftLog(wire, new SealedLog(stored, new KeyRing([SECRET]), '00000000000000e5'));
  }

  /** Null while the log has nothing of this session. */
  after(mcpSessionId: string, eventId: string): Promise<OrphanedStream | null> {
    const sessionId = hash('sha256', mcpSessionId).slice(0, 32);
    return readOrphanedStream(this.#log, sessionId, ANONYMOUS.id, eventId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#log.close();
    await this.#wire.close();
  }
}
