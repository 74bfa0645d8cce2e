/** One entry as sent to readers: redacted JSON text. */
interface JournalEntry {
  /** Increases over all topics. */
  readonly seq: number;
  readonly json: string;
}

/** The entries after a position in the journal. */
interface JournalPart {
  /** Oldest first. */
  readonly entries: readonly JournalEntry[];
  /** Whether entries after the position were dropped. */
  readonly lost: boolean;
}

interface JournalLimits {
  /** Per topic. */
  readonly maxEntries: number;
  readonly maxBytes: number;
  /** Over all topics: beyond it, the topic without new entries for the longest time is dropped. */
  readonly maxTotalBytes: number;
}

interface Topic {
  readonly entries: JournalEntry[];
  bytes: number;
  /** Entries up to this sequence number may have been dropped. */
  lostUpTo: number;
}

/** Cost of an entry in addition to its text. */
const ENTRY_BYTES = 64;

/**
 * The last entries by topic, in memory and bounded. A reader keeps its position and returns for later entries; a reader that
 * is too slow loses entries and is notified of it.
 */
export class Journal {
  readonly #run: string;
  readonly #limits: JournalLimits;
  /** Ordered by the last write, the latest at the end. */
  readonly #topics = new Map<string, Topic>();
  readonly #listeners = new Set<() => void>();
  #end = 0;
  #bytes = 0;
  /** As `Topic.lostUpTo`, for topics that were dropped. */
  #lostUpTo = 0;

  /** `run` identifies this process: positions in the journal of an earlier process are invalid. */
  constructor(run: string, limits: JournalLimits) {
    this.#run = run;
    this.#limits = limits;
  }

  /** The position after the last entry. */
  get end(): number {
    return this.#end;
  }

  /** A position as text, for readers. */
  cursor(position: number): string {
    return cursorOf(this.#run, position);
  }

  /** The position in this journal among the given cursors; null if all belong to other runs or are invalid. */
  position(cursors: string): number | null {
    const found = cursors.split(',').map((cursor) => positionOf(cursor, this.#run, this.#end));
    return found.find((position) => position !== null) ?? null;
  }

  push(topic: string, json: string): void {
    const found = this.#topics.get(topic) ?? { entries: [], bytes: 0, lostUpTo: this.#lostUpTo };
    this.#topics.delete(topic);
    this.#topics.set(topic, found);
    found.entries.push({ seq: ++this.#end, json });
    this.#grow(found, json.length + ENTRY_BYTES);
    while (found.entries.length > this.#limits.maxEntries || found.bytes > this.#limits.maxBytes) {
      this.#dropFirst(found);
    }
    while (this.#bytes > this.#limits.maxTotalBytes) this.#dropTopic();
    for (const listener of this.#listeners) listener();
  }

  /** At most `max` entries after the position, of one topic or of all (null). */
  after(position: number, topic: string | null, max: number): JournalPart {
    if (position >= this.#end) return { entries: [], lost: false };
    if (topic === null) {
      let lost = this.#lostUpTo > position;
      const entries: JournalEntry[] = [];
      for (const one of this.#topics.values()) {
        lost ||= one.lostUpTo > position;
        entries.push(...following(one, position));
      }
      return { entries: entries.sort((a, b) => a.seq - b.seq).slice(0, max), lost };
    }
    const found = this.#topics.get(topic);
    if (found === undefined) return { entries: [], lost: this.#lostUpTo > position };
    return { entries: following(found, position).slice(0, max), lost: found.lostUpTo > position };
  }

  /** The last entries, oldest first. */
  last(topic: string | null, max: number): readonly JournalEntry[] {
    const { entries } = this.after(0, topic, Number.POSITIVE_INFINITY);
    return max >= entries.length ? entries : entries.slice(entries.length - max);
  }

  /** Calls the listener after every entry; it must not throw. The returned function ends that. */
  onPush(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #grow(topic: Topic, bytes: number): void {
    topic.bytes += bytes;
    this.#bytes += bytes;
  }

  #dropFirst(topic: Topic): void {
    const gone = topic.entries.shift()!;
    topic.lostUpTo = gone.seq;
    this.#grow(topic, -(gone.json.length + ENTRY_BYTES));
  }

  #dropTopic(): void {
    const [oldest] = this.#topics as Iterable<[string, Topic]>;
    const [name, topic] = oldest!;
    this.#topics.delete(name);
    this.#bytes -= topic.bytes;
    this.#lostUpTo = Math.max(this.#lostUpTo, topic.entries.at(-1)?.seq ?? 0);
  }
}

/** Formats a position of a run as text. */
export function cursorOf(run: string, position: number): string {
  return `${run}-${position}`;
}

const CURSOR = /^([0-9a-z]+)-(\d{1,15})$/;

/** Comparator for ISO times. */
export function byTime(a: { readonly time: string }, b: { readonly time: string }): number {
  return a.time < b.time ? -1 : a.time > b.time ? 1 : 0;
}

/** Joins the cursors of several runs, such as those of the nodes of a cluster; of each run the last one counts. */
export function joinCursors(texts: readonly string[]): string {
  const byRun = new Map<string, string>();
  for (const cursor of texts.flatMap((text) => text.split(','))) {
    const [, run] = CURSOR.exec(cursor) ?? [];
    if (run !== undefined) byRun.set(run, cursor);
  }
  return [...byRun.values()].join(',');
}

/** The position in the text; null if it belongs to another run, is beyond the end, or is invalid. */
export function positionOf(cursor: string, run: string, end: number): number | null {
  const [, named, digits] = CURSOR.exec(cursor) ?? [];
  const position = Number(digits);
  return named === run && position <= end ? position : null;
}

/** Searches from the end, because most readers are close to it. */
function following({ entries }: Topic, position: number): JournalEntry[] {
  let from = entries.length;
  while (from > 0 && entries[from - 1]!.seq > position) from--;
  return entries.slice(from);
}
