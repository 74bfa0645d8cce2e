import type { Bus } from '../../src/bus/bus.ts';
import { MemorySharedState } from '../../src/bus/memory/memory-shared-state.ts';
import { MemoryHub } from '../../src/bus/memory/memory-wire.ts';
import type { SharedState } from '../../src/bus/shared-state.ts';
import { SharedSessionRecords } from '../../src/cluster/sessions/shared-session-records.ts';
import type { SessionRecord } from '../../src/model/ports.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { memoryBus } from './cluster-bench.ts';
import { FakeClock, settled } from './fake-clock.ts';

export function record(id: string, more: Partial<SessionRecord> = {}): SessionRecord {
  return {
    id,
    principal: 'anonymous',
    endpoint: '/mcp',
    revision: '2025-11-25',
    capabilities: '{}',
    info: null,
    initialized: false,
    logLevel: null,
    createdAt: 1,
    lastSeenAt: 1,
    ...more,
  };
}

/** Nodes that share the records of sessions, on a clock of their own. */
export class SessionRecordsBench {
  readonly clock = new FakeClock();
  readonly state = new MemorySharedState(this.clock);
  readonly heard: string[] = [];
  readonly hub = new MemoryHub();
  readonly #open: SharedSessionRecords[] = [];
  readonly #buses = new Map<string, Bus>();
  readonly #gone = new Set<string>();
  /** Names of nodes that see no other node, as without the bus. */
  readonly deaf = new Set<string>();

  async node(
    name: string,
    state: SharedState = this.state,
    logger = Logger.silent(),
    maxCached?: number,
  ): Promise<SharedSessionRecords> {
    const bus = memoryBus(this.hub, this.clock);
    const records = new SharedSessionRecords({
      bus,
      nodes: {
        others: () => (this.deaf.has(name) ? [] : [...this.#buses.values()].filter((other) => other !== bus)),
        isGone: (peer) => !this.deaf.has(name) && this.#gone.has(peer),
      },
      state,
      clock: this.clock,
      logger,
      ...(maxCached === undefined ? {} : { maxCached }),
    });
    records.follow({
      changed: ({ id, logLevel }) => void this.heard.push(`${name} ${id} ${logLevel}`),
      reviewed: ({ id }) => void this.heard.push(`${name} ${id} reviewed`),
      gone: (id) => void this.heard.push(`${name} ${id} gone`),
    });
    this.#open.push(records);
    this.#buses.set(name, bus);
    await settled();
    return records;
  }

  /** The other nodes see that this node is gone. */
  leave(name: string): void {
    this.#gone.add(this.#buses.get(name)!.peer);
    this.#buses.delete(name);
  }

  /** In steps, because a timer may begin only when an earlier one has ended. */
  async pass(ms: number): Promise<void> {
    await settled();
    for (let passed = 0; passed < ms; passed += 20) await this.clock.advance(20);
  }

  async close(): Promise<void> {
    const closing = Promise.all(this.#open.map((records) => records.close()));
    await this.pass(4_000);
    await closing;
    await Promise.all([...this.#buses.values()].map((bus) => bus.close()));
  }
}
