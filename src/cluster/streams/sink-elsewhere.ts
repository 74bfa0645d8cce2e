import type { BusServing } from '../../bus/bus.ts';
import type { EventSink } from '../../model/stream-copies.ts';
import { packFrame } from '../frames/frame.ts';

/** What the node that a client has its stream at is told of it. The first one opens the stream; an event is the piece. */
export type StreamTold =
  | { readonly kind: 'open' }
  | { readonly kind: 'event'; readonly id: string | null; readonly droppable: boolean }
  | { readonly kind: 'retry'; readonly ms: number };

/** The connection under a stream of this node whose client is at another one. */
export class SinkElsewhere implements EventSink {
  onDrain: (() => void) | null = null;
  onClose: (() => void) | null = null;
  /** Resolves when there is nothing more to be said. */
  readonly over: Promise<void>;
  readonly #serving: BusServing;
  readonly #ended: () => void;
  #full = false;
  #closed = false;

  constructor(serving: BusServing) {
    this.#serving = serving;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.over = promise;
    this.#ended = resolve;
    serving.onCancel = () => this.#gone();
    serving.onDrain = () => {
      this.#full = false;
      this.onDrain?.();
    };
    this.#tell({ kind: 'open' });
    if (serving.cancelled !== null) this.#gone();
  }

  get closed(): boolean {
    return this.#closed;
  }

  event(id: string | null, parts: readonly Buffer[], droppable = false): boolean {
    if (this.#closed || (this.#full && droppable)) return false;
    return this.#tell({ kind: 'event', id, droppable }, parts);
  }

  retry(ms: number): boolean {
    return !this.#closed && this.#tell({ kind: 'retry', ms });
  }

  end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#serving.answer(packFrame({}));
    this.#ended();
  }

  #tell(told: StreamTold, parts: readonly Buffer[] = []): boolean {
    const fits = this.#serving.emit(packFrame(told, parts));
    if (!fits) this.#full = true;
    return fits;
  }

  #gone(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#ended();
    this.onClose?.();
  }
}
