import type { Journal } from '../telemetry/journal.ts';
import type { EventWriter } from './operation.ts';

const AT_ONCE = 256;

export interface JournalReading {
  readonly journal: Journal;
  /** Server whose entries are sent; null for all. */
  readonly topic: string | null;
  /** Position to begin at; null if the cursor does not belong to this journal. */
  readonly from: number | null;
  /** Formats an entry for sending. */
  readonly format: (json: string) => string;
}

/**
 * One reader of a journal over an event stream. Sends entries from the reader's position while the reader keeps up, and has no
 * queue: entries that were overwritten meanwhile become a `gap` event. Calls `ended` when the reader disconnects.
 */
export class JournalStream {
  readonly #writer: EventWriter;
  readonly #reading: JournalReading;
  readonly #stop: () => void;
  #position: number;
  #blocked = false;
  #due = false;

  constructor(writer: EventWriter, reading: JournalReading, ended: () => void) {
    this.#writer = writer;
    this.#reading = reading;
    this.#position = reading.from ?? 0;
    this.#stop = reading.journal.onPush(() => this.#schedule());
    writer.onDrain = () => {
      this.#blocked = false;
      this.#schedule();
    };
    writer.onClose = () => {
      this.#stop();
      ended();
    };
    if (reading.from === null) this.#gap('the cursor is malformed or from another run of the gateway');
    this.#schedule();
  }

  close(): void {
    this.#stop();
    this.#writer.end();
  }

  /** Sends the entries of one event-loop turn together. */
  #schedule(): void {
    if (this.#due || this.#blocked) return;
    this.#due = true;
    setImmediate(() => {
      this.#due = false;
      this.#send();
    });
  }

  #send(): void {
    const { journal, topic, format } = this.#reading;
    while (!this.#blocked && !this.#writer.closed) {
      const { end } = journal;
      const { entries, lost } = journal.after(this.#position, topic, AT_ONCE);
      if (lost) this.#gap('older entries were dropped');
      for (const { seq, json } of entries) {
        this.#event(seq, format(json));
        // Back-pressure: the position stays here until the writer drains.
        if (this.#blocked) return;
      }
      if (entries.length === AT_ONCE) continue;
      this.#position = end;
      return;
    }
  }

  /** The id of a gap is the position before the next entries, so that a reader that resumes there misses none of them. */
  #gap(reason: string): void {
    this.#event(this.#position, JSON.stringify({ type: 'gap', reason }));
  }

  #event(at: number, json: string): void {
    this.#position = at;
    if (!this.#writer.event(this.#reading.journal.cursor(at), [Buffer.from(json)])) this.#blocked = true;
  }
}
