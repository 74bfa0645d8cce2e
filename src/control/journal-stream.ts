import type { Journal } from '../telemetry/journal.ts';
import type { EventWriter } from './operation.ts';

const AT_ONCE = 256;

export interface JournalReading {
  readonly journal: Journal;
  /** One server's entries; null for all. */
  readonly topic: string | null;
  /** Where to begin; null where that is not known any more. */
  readonly from: number | null;
  /** An entry as it is sent. */
  readonly sent: (json: string) => string;
}

/**
 * One reader of a journal over an event stream. It is sent what follows its position for as long as it takes it, and has
 * no queue of its own: what was overwritten meanwhile is a `gap` in its stream. `ended` is called once, when nothing
 * more is sent.
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
    this.#stop = reading.journal.onPush(() => this.#later());
    writer.onDrain = () => {
      this.#blocked = false;
      this.#later();
    };
    writer.onClose = () => {
      this.#stop();
      ended();
    };
    if (reading.from === null) this.#gap('the cursor is malformed or from another run of the gateway');
    this.#later();
  }

  close(): void {
    this.#stop();
    this.#writer.end();
  }

  /** What comes in a row goes out together. */
  #later(): void {
    if (this.#due || this.#blocked) return;
    this.#due = true;
    setImmediate(() => {
      this.#due = false;
      this.#send();
    });
  }

  #send(): void {
    const { journal, topic, sent } = this.#reading;
    while (!this.#blocked && !this.#writer.closed) {
      const { end } = journal;
      const { entries, lost } = journal.after(this.#position, topic, AT_ONCE);
      if (lost) this.#gap('older entries were dropped');
      for (const { seq, json } of entries) {
        this.#event(seq, sent(json));
        // Held back now. What follows stays where it is until the client goes on reading.
        if (this.#blocked) return;
      }
      if (entries.length === AT_ONCE) continue;
      this.#position = end;
      return;
    }
  }

  /** Its id is the position before what follows, so that a reader that comes back with it misses nothing more. */
  #gap(reason: string): void {
    this.#event(this.#position, JSON.stringify({ type: 'gap', reason }));
  }

  #event(at: number, json: string): void {
    this.#position = at;
    if (!this.#writer.event(this.#reading.journal.cursor(at), [Buffer.from(json)])) this.#blocked = true;
  }
}
