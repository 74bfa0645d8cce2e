import { type Clock, pause } from '../../model/clock.ts';

/** Of what all logs may hold. */
const LARGEST_SHARE = 1 / 16;
/** Of a group that is faster than its oldest entries are deleted; further entries are dropped. */
const MOST = 1 / 8;
const SMALLEST_SHARE_BYTES = 64 * 1024;
/** Of what all logs may hold. */
const SMALLEST_PART = 1 / 2_048;
const LOOK_BYTES = 256 * 1024;
const PAUSE_MS = 25;
const LOOK_MS = 2_000;
const MAX_GROUPS = 65_536;

export interface StoredLogs {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  /** Rejects if unknown. */
  state(): Promise<LogsState>;
  /** Deletes entries of a group up to this position. */
  drop(group: string, upTo: number): Promise<void>;
}

export interface LogsState {
  /** Another one: all positions are others. */
  readonly incarnation: string;
  readonly bytes: number;
  /** Of the newest entry. */
  readonly position: number;
}

/** A moment, with the position of the newest entry then; 0: not known yet. */
interface LogMark {
  position: number;
}

/** Entries in a row: after the position `from`, and before the mark. */
interface LogPart {
  from: number;
  mark: LogMark;
  bytes: number;
}

interface LogGroup {
  readonly parts: LogPart[];
  bytes: number;
  at: number;
}

/**
 * Deletes the oldest entries of each group that has more than its share of the bytes. The share becomes smaller while the logs are
 * nearly full, so that those with the most make room. Counts what this node wrote: JetStream itself limits no bytes per subject.
 */
export class LogShares {
  readonly #stored: StoredLogs;
  readonly #clock: Clock;
  readonly #groups = new Map<string, LogGroup>();
  readonly #largest: number;
  #share: number;
  #mark: LogMark = { position: 0 };
  #incarnation: string | null = null;
  #position = 0;
  /** Bytes since the mark. */
  #since = 0;
  #looking = false;
  #stopTimer: (() => void) | null = null;
  #closed = false;

  constructor(stored: StoredLogs, clock: Clock) {
    this.#stored = stored;
    this.#clock = clock;
    this.#largest = Math.floor(stored.maxBytes * LARGEST_SHARE);
    this.#share = this.#largest;
  }

  /** For an entry that is about to be written. */
  take(name: string, bytes: number): boolean {
    const group = this.#groups.get(name) ?? { parts: [], bytes: 0, at: 0 };
    const { maxBytes } = this.#stored;
    if (group.bytes > maxBytes * MOST) return false;
    // The map is in the order of the last entries.
    this.#groups.delete(name);
    this.#groups.set(name, group);
    group.at = this.#clock.now();
    group.bytes += bytes;
    const part = group.parts.at(-1);
    if (part !== undefined && (part.mark === this.#mark || part.bytes < maxBytes * SMALLEST_PART)) {
      part.mark = this.#mark;
      part.bytes += bytes;
    } else group.parts.push({ from: this.#position, mark: this.#mark, bytes });
    this.#since += bytes;
    this.#lookSoon();
    return true;
  }

  close(): void {
    this.#closed = true;
    this.#stopTimer?.();
  }

  #lookSoon(): void {
    if (this.#looking || this.#closed || this.#groups.size === 0) return;
    if (this.#since >= LOOK_BYTES) void this.#look();
    else this.#stopTimer ??= this.#clock.after(LOOK_MS, () => void this.#look());
  }

  async #look(): Promise<void> {
    this.#looking = true;
    this.#stopTimer?.();
    this.#stopTimer = null;
    this.#since = 0;
    try {
      const { incarnation, bytes, position } = await this.#stored.state();
      if (incarnation !== (this.#incarnation ?? incarnation)) this.#groups.clear();
      this.#incarnation = incarnation;
      this.#position = position;
      this.#mark.position = position;
      this.#mark = { position: 0 };
      this.#forget();
      this.#adapt(bytes);
      await this.#trim();
    } catch {
      // The next mark is after these entries too.
    }
    await pause(this.#clock, PAUSE_MS);
    this.#looking = false;
    this.#lookSoon();
  }

  /** Their entries are too old. */
  #forget(): void {
    const before = this.#clock.now() - this.#stored.maxAgeMs;
    for (const [name, { at }] of this.#groups) {
      if (at > before && this.#groups.size <= MAX_GROUPS) return;
      this.#groups.delete(name);
    }
  }

  #adapt(bytes: number): void {
    const { maxBytes } = this.#stored;
    if (bytes > (maxBytes * 3) / 4) this.#share = Math.max(Math.ceil(this.#share / 2), SMALLEST_SHARE_BYTES);
    if (bytes < maxBytes / 2) this.#share = Math.min(Math.ceil(this.#share * 1.125), this.#largest);
  }

  async #trim(): Promise<void> {
    const drops = [...this.#groups].map(([name, group]) => [name, this.#dropped(group)] as const);
    for (const [name, upTo] of drops) if (upTo > 0) await this.#stored.drop(name, upTo);
  }

  /** The position up to which entries have to go; 0: none. */
  #dropped(group: LogGroup): number {
    let upTo = 0;
    while (group.bytes > this.#share && group.parts[0]!.mark.position > 0) {
      const part = group.parts[0]!;
      const { position } = part.mark;
      const bytes = Math.min(group.bytes - this.#share, part.bytes);
      // The entries of a part are taken to be at equal distances.
      upTo = part.from + Math.ceil(((position - part.from) * bytes) / part.bytes);
      part.from = upTo;
      part.bytes -= bytes;
      group.bytes -= bytes;
      if (part.bytes === 0) group.parts.shift();
    }
    return upTo;
  }
}
