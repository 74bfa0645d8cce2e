import type { SseWriter } from '../http/sse/sse-writer.ts';
import type { Journal } from '../telemetry/journal.ts';

const AT_ONCE = 256;

export interface JournalReading {
  readonly journal: Journal;
  /** One server's entries; null for all. */
  readonly topic: string | null;
  /** Where to begin; null where that is not known any more. */
  readonly from: number | null;
}

/**
 * One reader of a journal over an event stream. It is sent what follows its position for as long as it takes it, and has
 * no queue of its own: what was overwritten meanwhile is a `gap` in its stream. `ended` is called once, when nothing
 * more is sent; the returned function ends it.
 */
export function streamJournal(
  writer: SseWriter,
  { journal, topic, from }: JournalReading,
  ended: () => void,
): () => void {
  let position = from ?? 0;
  let blocked = false;
  let due = false;

  const event = (at: number, json: string): void => {
    position = at;
    if (!writer.event(journal.cursor(at), [Buffer.from(json)])) blocked = true;
  };
  /** Its id is the position before what follows, so that a reader that comes back with it misses nothing more. */
  const gap = (reason: string): void => event(position, JSON.stringify({ type: 'gap', reason }));
  const send = (): void => {
    while (!blocked && !writer.closed) {
      const { end } = journal;
      const { entries, lost } = journal.after(position, topic, AT_ONCE);
      if (lost) gap('what came in between is not kept any more');
      for (const { seq, json } of entries) {
        event(seq, json);
        // Held back now. What follows stays where it is until the client goes on reading.
        if (blocked) return;
      }
      if (entries.length === AT_ONCE) continue;
      position = end;
      return;
    }
  };
  /** What comes in a row goes out together. */
  const later = (): void => {
    if (due || blocked) return;
    due = true;
    setImmediate(() => {
      due = false;
      send();
    });
  };

  const stop = journal.onPush(later);
  writer.onDrain = () => {
    blocked = false;
    later();
  };
  writer.onClose = () => {
    stop();
    ended();
  };
  if (from === null) gap('another run of the gateway, or no position of this one');
  later();
  return () => {
    stop();
    writer.end();
  };
}
