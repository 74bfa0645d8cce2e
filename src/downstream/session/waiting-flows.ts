import type { Flow } from '../../model/exchange.ts';
import type { EventSink } from '../../model/stream-copies.ts';

/**
 * The upstream streams that wait because one client does not read what it is sent (F16): the calls that feed it,
 * and no other, are not read from their servers until it does, or is gone.
 */
export class WaitingFlows {
  readonly #flows = new Set<Flow>();
  /** Lets all of them go on. To be called, too, when the sink goes away in any other way, where the calls go on without it. */
  readonly release = (): void => {
    const flows = [...this.#flows];
    this.#flows.clear();
    for (const flow of flows) flow.resume();
  };

  /** Pauses the flow until the sink has drained. */
  wait(flow: Flow, sink: Pick<EventSink, 'onDrain'>): void {
    if (this.#flows.has(flow)) return;
    this.#flows.add(flow);
    flow.pause();
    sink.onDrain = this.release;
  }
}
