import type { Clock } from '../../model/clock.ts';
import type { Series } from '../metrics.ts';
import type { EndedSpan, SpanExporter } from '../tracing.ts';
import type { OtlpResource } from './otlp-json.ts';
import { spansJson } from './otlp-json.ts';
import type { OtlpSender } from './otlp-sender.ts';

/** The defaults of the batch processor of the OpenTelemetry SDKs. */
const MAX_WAITING = 2_048;
const BATCH = 512;
const DELAY_MS = 5_000;

/** Sends spans in batches. Drops and counts spans beyond the queue, when the receiver does not keep up. */
export class OtlpSpans implements SpanExporter {
  readonly #sender: OtlpSender;
  readonly #resource: OtlpResource;
  readonly #lost: Series;
  readonly #clock: Clock;
  #waiting: EndedSpan[] = [];
  #sending: Promise<void> | null = null;
  #disarm: (() => void) | null = null;

  constructor(sender: OtlpSender, resource: OtlpResource, lost: Series, clock: Clock) {
    this.#sender = sender;
    this.#resource = resource;
    this.#lost = lost;
    this.#clock = clock;
  }

  export(span: EndedSpan): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.#lost.add();
      return;
    }
    this.#waiting.push(span);
    if (this.#sending !== null) return;
    if (this.#waiting.length >= BATCH) this.#flush();
    else this.#disarm ??= this.#clock.after(DELAY_MS, () => this.#flush());
  }

  /** Sends the queued spans. Resolves when they have arrived or are lost. */
  close(): Promise<void> {
    this.#sender.stopRetrying();
    this.#flush();
    return this.#sending ?? Promise.resolve();
  }

  #flush(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#sending ??= this.#send().finally(() => {
      this.#sending = null;
    });
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      await this.#sender.send(spansJson(this.#resource, batch), batch.length);
    }
  }
}
