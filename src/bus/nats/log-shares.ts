import { type Clock, pause } from '../../model/clock.ts';

/** Of what all logs may hold. */
const LARGEST_SHARE = 1 / 16;
/** Of a group that is faster than its oldest entries are deleted; further entries are dropped. */
const MOST = 1 / 8;
const SMALLEST_SHARE_BYTES = 64 * 1024;
/** What is dropped at once. */
const PART_BYTES = 32 * 1024;
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

/** Entries in a row, all of them before the mark. */
interface LogPart {
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
  #share: number;
  #mark: LogMark = { position: 0 };
  #incarnation: string | null = null;
  /** Bytes since the mark. */
  #since = 0;
  #looking = false;
  #stopTimer: (() => void) | null = null;
  #closed = false;

  constructor(stored: StoredLogs, clock: Clock) {
    this.#stored = stored;
    this.#clock = clock;
    this.#share = stored.maxBytes * LARGEST_SHARE;
  }

  /** For an entry that is about to be written. */
  take(name: string, bytes: number): boolean {
    const group = this.#groups.get(name) ?? { parts: [], bytes: 0, at: 0 };
    if (group.bytes + bytes > this.#stored.maxBytes * MOST) return false;
    // The map is in the order of the last entries.
    this.#groups.delete(name);
    this.#groups.set(name, group);
    group.at = this.#clock.now();
    group.bytes += bytes;
    const part = group.parts.at(-1);
    if (part === undefined || part.bytes >= PART_BYTES) group.parts.push({ mark: this.#mark, bytes });
    else {
      part.mark = this.#mark;
      part.bytes += bytes;
    }
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
    if (bytes > (maxBytes * 3) / 4) this.#share = Math.max(this.#share / 2, SMALLEST_SHARE_BYTES);
    if (bytes < maxBytes / 2) this.#share = Math.min(this.#share * 1.125, maxBytes * LARGEST_SHARE);
  }

  async #trim(): Promise<void> {
    const drops = [...this.#groups].map(([name, group]) => [name, this.#dropped(group)] as const);
    for (const [name, upTo] of drops) if (upTo > 0) await this.#stored.drop(name, upTo);
  }

  /** The position up to which entries have to go; 0: none. */
  #dropped(group: LogGroup): number {
    let upTo = 0;
    while (group.bytes > this.#share && group.parts[0]!.mark.position > 0) {
      const { mark, bytes } = group.parts.shift()!;
      upTo = mark.position;
      group.bytes -= bytes;
    }
    return upTo;
  }
}
