import type { Clock } from '../../model/clock.ts';
import type { Metrics } from '../metrics.ts';
import { metricsJson, type OtlpResource } from './otlp-json.ts';
import type { OtlpSender } from './otlp-sender.ts';

/** Sends all metrics at an interval. Values are totals since the start, so a lost post loses no counts. */
export class OtlpMetrics {
  readonly #sender: OtlpSender;
  readonly #resource: OtlpResource;
  readonly #metrics: Metrics;
  readonly #intervalMs: number;
  readonly #clock: Clock;
  readonly #startedAt: number;
  #disarm: () => void = () => {};
  #sending: Promise<void> | null = null;

  constructor(sender: OtlpSender, resource: OtlpResource, metrics: Metrics, intervalMs: number, clock: Clock) {
    this.#sender = sender;
    this.#resource = resource;
    this.#metrics = metrics;
    this.#intervalMs = intervalMs;
    this.#clock = clock;
    this.#startedAt = clock.wall();
    this.#wait();
  }

  /** Sends the last values. Resolves when they have arrived or are lost. */
  async close(): Promise<void> {
    this.#disarm();
    this.#sender.stopRetrying();
    await this.#sending;
    await this.#send();
  }

  #wait(): void {
    this.#disarm = this.#clock.after(this.#intervalMs, () => {
      this.#wait();
      // No second post during retries: the next one includes its counts.
      this.#sending ??= this.#send().finally(() => {
        this.#sending = null;
      });
    });
  }

  #send(): Promise<void> {
    const { text, points } = metricsJson(this.#resource, this.#metrics, this.#startedAt, this.#clock.wall());
    return this.#sender.send(text, points);
  }
}
