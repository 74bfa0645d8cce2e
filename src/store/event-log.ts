import type { StatementSync } from 'node:sqlite';
import type { Clock } from '../model/clock.ts';
import { eventIdOf, readEventId } from '../model/event-id.ts';
import type { EventLog, LoggedEvents } from '../model/ports.ts';
import { EventMemory, type LoggedMessage } from './event-memory.ts';
import { eventSum } from './open-state.ts';
import type { QueuedWrite, StateFile } from './state-file.ts';

const MAX_STREAM_BYTES = 1024 * 1024;
/** Over all sessions: streams are short-lived and many, so a bound per stream bounds nothing (G16). */
const MAX_BYTES = 16 * 1024 * 1024;
/** The same bound for events with little or no content. */
const MAX_EVENTS = 64 * 1024;
const MAX_AGE_MS = 5 * 60_000;
const SWEEP_MS = 60_000;

interface Stream {
  readonly sessionId: string;
  readonly name: string;
  readonly entries: Entry[];
  readonly memory: EventMemory;
  readonly insert: StatementSync;
  bytes: number;
  /** Number of the newest message that has left the log; a client that has not seen it has a gap. */
  lost: number;
}

/**
 * One logged message, in its stream and in the list of all entries, and its pending write to disk. If the entry is dropped
 * before the write, it releases its message and is never written.
 */
class Entry implements QueuedWrite, LoggedMessage {
  readonly seq: number;
  readonly at: number;
  readonly stream: Stream;
  segment: LoggedMessage['segment'] = null;
  slot = 0;
  start = 0;
  bytes = 0;
  dropped = false;
  written: boolean;
  older: Entry | null = null;
  newer: Entry | null = null;

  constructor(stream: Stream, seq: number, at: number, message: Buffer, written: boolean) {
    this.stream = stream;
    this.seq = seq;
    this.at = at;
    this.written = written;
    stream.memory.put(this, message);
  }

  get message(): Buffer {
    return this.stream.memory.view(this);
  }

  /** A dropped entry may still be in the write queue, where it must keep nothing else in memory. */
  drop(): void {
    this.dropped = true;
    this.stream.memory.release(this);
    this.bytes = 0;
    this.older = null;
    this.newer = null;
  }

  run(): void {
    if (this.dropped || this.written) return;
    this.written = true;
    const { sessionId, name, insert } = this.stream;
    const { message } = this;
    const sum = eventSum(sessionId, this.seq, name, this.at, message);
    insert.run(sessionId, this.seq, name, this.at, message, sum);
  }
}

/**
 * Event log in memory, mirrored to `state.db` so that a client can also resume after a restart of the gateway.
 *
 * An event id is `<stream>~<seq>`; `seq` increases over all sessions of a file, across restarts, so no id is reused. Events
 * beyond 1 MiB or 5 min of a stream, or `maxBytes` over all streams, are dropped, the oldest first. A client may have seen
 * what was dropped; if it has not seen the newest message that was dropped, it has a gap.
 */
export class SqliteEventLog implements EventLog {
  readonly #state: StateFile;
  readonly #clock: Clock;
  readonly #maxBytes: number;
  readonly #memory: EventMemory;
  readonly #sessions = new Map<string, Map<string, Stream>>();
  readonly #insert: StatementSync;
  readonly #trim: StatementSync;
  readonly #forget: StatementSync;
  #oldest: Entry | null = null;
  #newest: Entry | null = null;
  #bytes = 0;
  #events = 0;
  #seq: number;
  #cancelSweep: () => void;

  constructor(state: StateFile, clock: Clock, maxBytes = MAX_BYTES) {
    this.#state = state;
    this.#clock = clock;
    this.#maxBytes = maxBytes;
    this.#memory = new EventMemory(maxBytes);
    this.#insert = state.prepare(
      'INSERT OR REPLACE INTO events (session, seq, stream, at, message, sum) VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.#trim = state.prepare('DELETE FROM events WHERE session = ? AND stream = ? AND seq <= ?');
    this.#forget = state.prepare('DELETE FROM events WHERE session = ?');
    const last = state.prepare('SELECT MAX(seq) AS seq FROM events').get() as { seq: number | null };
    // Skips the ids that a killed process handed out without writing them to disk.
    this.#seq = last.seq === null ? 0 : last.seq + 1_000_000;
    // Without its client, a session is never loaded, so nothing else trims what an earlier process logged for it.
    const expired = state.prepare('DELETE FROM events WHERE at < ?');
    const before = clock.wall() - MAX_AGE_MS;
    state.enqueue({ bytes: 0, run: () => void expired.run(before) });
    this.#cancelSweep = clock.after(SWEEP_MS, () => this.#sweep());
  }

  append(sessionId: string, streamName: string, message: Buffer, previous: string | null = null): string {
    const seq = ++this.#seq;
    const at = this.#clock.wall();
    const stream = this.#stream(this.#load(sessionId), sessionId, streamName, previous);
    this.#state.enqueue(this.#add(stream, seq, at, message, false));
    this.#shorten(stream);
    this.#bound();
    return eventIdOf(streamName, seq);
  }

  async after(sessionId: string, eventId: string): Promise<LoggedEvents | null> {
    const known = readEventId(eventId);
    if (known === null) return null;
    const { stream: name, seq } = known;
    const stream = this.#load(sessionId).get(name);
    if (stream === undefined || seq > (stream.entries.at(-1)?.seq ?? 0)) return null;
    const events = stream.entries
      .filter((entry) => entry.seq > seq)
      .map((entry) => ({ eventId: eventIdOf(name, entry.seq), message: Buffer.from(entry.message) }));
    return { stream: name, events, gap: seq < stream.lost };
  }

  forget(sessionId: string): void {
    for (const stream of this.#sessions.get(sessionId)?.values() ?? []) this.#drop(stream, stream.entries.length);
    this.#sessions.delete(sessionId);
    this.#state.enqueue({ bytes: 0, run: () => void this.#forget.run(sessionId) });
  }

  close(): void {
    this.#cancelSweep();
  }

  /** The session's streams; read from disk if this process has not seen the session yet. */
  #load(sessionId: string): Map<string, Stream> {
    const known = this.#sessions.get(sessionId);
    if (known !== undefined) return known;
    const streams = new Map<string, Stream>();
    this.#sessions.set(sessionId, streams);
    const rows = this.#state
      .prepare('SELECT seq, stream, at, message FROM events WHERE session = ? AND at > ? ORDER BY seq')
      .all(sessionId, this.#clock.wall() - MAX_AGE_MS) as {
      seq: number;
      stream: string;
      at: number;
      message: Uint8Array;
    }[];
    for (const { stream: name, seq, at, message } of rows) {
      const { buffer, byteOffset, byteLength } = message;
      // What the earlier process dropped before the first row is unknown.
      const stream = this.#stream(streams, sessionId, name, eventIdOf(name, seq));
      this.#add(stream, seq, at, Buffer.from(buffer, byteOffset, byteLength), true);
      this.#bound();
    }
    return streams;
  }

  /** `lostId`: for a stream that is not here, the newest event that may have been dropped from it. */
  #stream(streams: Map<string, Stream>, sessionId: string, name: string, lostId: string | null): Stream {
    let stream = streams.get(name);
    if (stream === undefined) {
      const lost = lostId === null ? 0 : (readEventId(lostId)?.seq ?? 0);
      stream = { sessionId, name, entries: [], memory: this.#memory, insert: this.#insert, bytes: 0, lost };
      streams.set(name, stream);
    }
    return stream;
  }

  /** The entries of a stream are in the order of their ids, so its oldest entry is also its first in the list of all. */
  #add(stream: Stream, seq: number, at: number, message: Buffer, written: boolean): Entry {
    const entry = new Entry(stream, seq, at, message, written);
    entry.older = this.#newest;
    if (this.#newest === null) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
    stream.entries.push(entry);
    stream.bytes += message.length;
    this.#bytes += message.length;
    this.#events++;
    return entry;
  }

  /** Removes the oldest entries of a stream. */
  #drop(stream: Stream, count: number): Entry[] {
    const dropped = stream.entries.splice(0, count);
    for (const entry of dropped) {
      const { bytes, older, newer } = entry;
      stream.bytes -= bytes;
      this.#bytes -= bytes;
      if (bytes > 0) stream.lost = entry.seq;
      if (older === null) this.#oldest = newer;
      else older.newer = newer;
      if (newer === null) this.#newest = older;
      else newer.older = older;
      entry.drop();
    }
    this.#events -= dropped.length;
    return dropped;
  }

  #shorten(stream: Stream): void {
    const oldest = this.#clock.wall() - MAX_AGE_MS;
    let count = 0;
    let { bytes } = stream;
    // Keeps the newest event: a client may reconnect with its id.
    while (count < stream.entries.length - 1) {
      const entry = stream.entries[count]!;
      if (bytes <= MAX_STREAM_BYTES && entry.at >= oldest) break;
      bytes -= entry.bytes;
      count++;
    }
    if (count > 0) this.#trimmed(stream, count);
  }

  /** Keeps all streams together below the bound by dropping the entries that were added first. */
  #bound(): void {
    while ((this.#bytes > this.#maxBytes || this.#events > MAX_EVENTS) && this.#oldest !== null) {
      this.#trimmed(this.#oldest.stream, 1);
    }
  }

  #trimmed(stream: Stream, count: number): void {
    const { sessionId, name } = stream;
    const onDisk = this.#drop(stream, count).findLast((entry) => entry.written);
    if (onDisk === undefined) return;
    this.#state.enqueue({ bytes: 0, run: () => void this.#trim.run(sessionId, name, onDisk.seq) });
  }

  /** Frees streams without new entries. */
  #sweep(): void {
    const oldest = this.#clock.wall() - MAX_AGE_MS;
    for (const [sessionId, streams] of this.#sessions) {
      for (const [name, stream] of streams) {
        const newest = stream.entries.at(-1);
        if (newest !== undefined && newest.at >= oldest) continue;
        streams.delete(name);
        if (newest !== undefined) this.#trimmed(stream, stream.entries.length);
      }
      if (streams.size === 0) this.#sessions.delete(sessionId);
    }
    this.#memory.trim();
    this.#cancelSweep = this.#clock.after(SWEEP_MS, () => this.#sweep());
  }
}
