import type { Flow } from '../../model/exchange.ts';
import type { EventSink } from '../../model/stream-copies.ts';

/**
 * Back-pressure of one client that does not read (F16): pauses the upstream flows that feed it, and no others, until the
 * client reads again or is gone.
 */
export class PausedFlows {
  readonly #flows = new Set<Flow>();
  /** Resumes all of them. Call it as well when the sink closes while the calls continue without it. */
  readonly release = (): void => {
    const flows = [...this.#flows];
    this.#flows.clear();
    for (const flow of flows) flow.resume();
  };

  /** Pauses the flow until the sink has drained. */
  pause(flow: Flow, sink: Pick<EventSink, 'onDrain'>): void {
    if (this.#flows.has(flow)) return;
    this.#flows.add(flow);
    flow.pause();
    sink.onDrain = this.release;
  }
}
