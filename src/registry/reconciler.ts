import { type Clock, withTimeout } from '../model/clock.ts';
import { messageOf } from '../model/thrown.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics, Series } from '../telemetry/metrics.ts';

/** A source of the desired state. `read` rejects if it fails; the previous state then stays in force. */
interface DesiredSource {
  readonly name: 'files' | 'store';
  read(): Promise<void>;
}

interface ReconcilerDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly sources: readonly DesiredSource[];
  /** Makes the running servers equal to the desired ones; returns the servers that differed. */
  readonly repair: () => readonly string[];
}

/** A lost event delays its effect by at most this time. */
const EVERY_MS = 30_000;
/** Limit of a reading: a network file system may be gone, or a database behind a dead link. */
const READ_MS = 10_000;

/**
 * Every 30 s reads the desired state from all sources and repairs servers that differ from it. A reading that fails or does not
 * end changes nothing and raises an alarm; it is not started twice and blocks nothing else.
 */
export class Reconciler {
  readonly #deps: ReconcilerDeps;
  readonly #alarms = new Map<string, string>();
  readonly #unread: ReturnType<Metrics['gauge']>;
  readonly #repaired: Series;
  readonly #readings = new Map<string, Promise<void>>();
  #cancel: () => void = () => {};
  #running: Promise<void> | null = null;
  #closed = false;

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps;
    this.#unread = deps.metrics.gauge(
      'trunkline_desired_state_unread',
      'Whether the last reading of the desired state failed, by source.',
      ['source'],
    );
    for (const { name } of deps.sources) this.#unread.of(name).set(0);
    this.#repaired = deps.metrics
      .counter('trunkline_servers_repaired_total', 'Servers that differed from the desired state and were repaired.')
      .of();
  }

  /** Why the desired state could not be read, by source; empty if all sources can be read. */
  get alarms(): readonly string[] {
    const said = 'what should run could not be read from the';
    return [...this.#alarms].map(([source, reason]) => `${said} ${source}: ${reason}`);
  }

  start(): void {
    this.#schedule();
  }

  /** Runs once, now. A call during a run shares that run. Never rejects. */
  run(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  #schedule(): void {
    if (this.#closed) return;
    this.#cancel = this.#deps.clock.after(EVERY_MS, () => void this.run().then(() => this.#schedule()));
  }

  async #run(): Promise<void> {
    const { clock, sources, logger } = this.#deps;
    for (const source of sources) {
      await withTimeout(clock, READ_MS, this.#reading(source), () =>
        this.#failed(source.name, new Error(`no answer within ${READ_MS / 1_000} s`)),
      );
    }
    if (this.#closed) return;
    try {
      const repaired = this.#deps.repair();
      if (repaired.length === 0) return;
      this.#repaired.add(repaired.length);
      logger.warn('servers_repaired', { servers: repaired, reason: 'they differed from the desired state' });
    } catch (error) {
      logger.error('repair_failed', { error });
    }
  }

  /** Resolves when the reading ends, even after its limit. Never rejects. */
  #reading(source: DesiredSource): Promise<void> {
    const { name } = source;
    const known = this.#readings.get(name);
    if (known !== undefined) return known;
    const reading = source
      .read()
      .then(
        () => this.#read(name),
        (error: unknown) => this.#failed(name, error),
      )
      .finally(() => this.#readings.delete(name));
    this.#readings.set(name, reading);
    return reading;
  }

  #failed(source: string, error: unknown): void {
    const reason = messageOf(error);
    // Once per outage, which may last for hours.
    if (this.#alarms.get(source) !== reason) {
      this.#deps.logger.error('desired_state_unread', { source, reason, effect: 'what was desired before holds' });
    }
    this.#alarms.set(source, reason);
    this.#unread.of(source).set(1);
  }

  #read(source: string): void {
    this.#unread.of(source).set(0);
    if (this.#alarms.delete(source)) this.#deps.logger.info('desired_state_read_again', { source });
  }
}
