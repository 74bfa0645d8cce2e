import { type Clock, pause } from '../../model/clock.ts';

/** Largest share of one group, as a fraction of `maxBytes`. */
const LARGEST_SHARE = 1 / 16;
/** A group above this fraction of `maxBytes` grows faster than its oldest entries are deleted: its new entries are dropped. */
const MOST = 1 / 8;
const SMALLEST_SHARE_BYTES = 64 * 1024;
/** A part below this fraction of `maxBytes` takes the next entries too. */
const SMALLEST_PART = 1 / 2_048;
const LOOK_BYTES = 256 * 1024;
const PAUSE_MS = 25;
const LOOK_MS = 2_000;
const MAX_GROUPS = 65_536;

export interface StoredLogs {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  /** Rejects if the state is unknown. */
  state(): Promise<LogsState>;
  /** Deletes the entries of a group up to and including this position. */
  drop(group: string, upTo: number): Promise<void>;
}

export interface LogsState {
  /** Changes when the store is recreated, which invalidates all positions. */
  readonly incarnation: string;
  readonly bytes: number;
  /** Position of the newest entry. */
  readonly position: number;
}

/** A point in time, with the position of the newest entry then; 0 if not known yet. */
interface LogMark {
  position: number;
}

/** Consecutive entries of a group: after the position `from`, up to the mark. */
interface LogPart {
  from: number;
  mark: LogMark;
  bytes: number;
}

/** The oldest bytes of a part, up to this position. */
interface LogCut {
  readonly part: LogPart;
  readonly bytes: number;
  readonly upTo: number;
}

interface LogGroup {
  readonly parts: LogPart[];
  bytes: number;
  at: number;
}

/**
 * Deletes the oldest entries of each group that exceeds its share of the bytes. The share shrinks while the logs are nearly full,
 * so that the largest groups make room. Counts what this node wrote, because JetStream has no limit of bytes per subject.
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
  /** Bytes since the last look. */
  #since = 0;
  #checking = false;
  #stopTimer: (() => void) | null = null;
  #closed = false;

  constructor(stored: StoredLogs, clock: Clock) {
    this.#stored = stored;
    this.#clock = clock;
    this.#largest = Math.floor(stored.maxBytes * LARGEST_SHARE);
    this.#share = this.#largest;
  }

  /** Counts an entry that is about to be written; returns false if it must be dropped. */
  take(name: string, bytes: number): boolean {
    const group = this.#groups.get(name) ?? { parts: [], bytes: 0, at: 0 };
    const { maxBytes } = this.#stored;
    if (group.bytes > maxBytes * MOST) return false;
    // Re-inserted, so that the map is in the order of the last entries.
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
    this.#scheduleCheck();
    return true;
  }

  close(): void {
    this.#closed = true;
    this.#stopTimer?.();
  }

  #scheduleCheck(): void {
    if (this.#checking || this.#closed || this.#groups.size === 0) return;
    if (this.#since >= LOOK_BYTES) void this.#check();
    else this.#stopTimer ??= this.#clock.after(LOOK_MS, () => void this.#check());
  }

  async #check(): Promise<void> {
    this.#checking = true;
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
      // A mark of a later look covers these entries too.
    }
    await pause(this.#clock, PAUSE_MS);
    this.#checking = false;
    this.#scheduleCheck();
  }

  /** Forgets groups without unexpired entries, and the oldest ones above MAX_GROUPS. */
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
    for (const [name, group] of [...this.#groups]) {
      const cuts = this.#cuts(group);
      if (cuts.length === 0) continue;
      await this.#stored.drop(name, cuts.at(-1)!.upTo);
      // Meanwhile, the last part may have grown.
      for (const { part, bytes, upTo } of cuts) {
        part.from = upTo;
        part.bytes -= bytes;
        group.bytes -= bytes;
        if (part.bytes === 0) group.parts.shift();
      }
    }
  }

  /** Returns what to delete to reduce the group to its share, oldest first. */
  #cuts(group: LogGroup): readonly LogCut[] {
    const cuts: LogCut[] = [];
    let excess = group.bytes - this.#share;
    for (const part of group.parts) {
      const { position } = part.mark;
      if (excess <= 0 || position === 0) break;
      const bytes = Math.min(excess, part.bytes);
      // Assumes that the bytes of a part are spread evenly over its positions.
      cuts.push({ part, bytes, upTo: part.from + Math.ceil(((position - part.from) * bytes) / part.bytes) });
      excess -= bytes;
    }
    return cuts;
  }
}
