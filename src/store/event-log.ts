import type { StatementSync } from 'node:sqlite';
import type { Clock } from '../model/clock.ts';
import type { EventLog, LoggedEvent } from '../model/ports.ts';
import type { StateFile } from './state-file.ts';

const MAX_STREAM_BYTES = 1024 * 1024;
const MAX_AGE_MS = 5 * 60_000;
const SWEEP_MS = 60_000;

interface Entry {
  readonly seq: number;
  readonly at: number;
  readonly message: Buffer;
}

interface Stream {
  entries: Entry[];
  bytes: number;
}

/**
 * Event log in memory, mirrored to `state.db` so that a client can also resume after a restart of the gateway.
 *
 * An event id is `<stream>~<seq>`; `seq` grows over all sessions of a file, restarts included, so an id never comes
 * back. What exceeds 1 MiB or 5 min of a stream falls out oldest first.
 */
export class SqliteEventLog implements EventLog {
  readonly #state: StateFile;
  readonly #clock: Clock;
  readonly #sessions = new Map<string, Map<string, Stream>>();
  readonly #insert: StatementSync;
  readonly #trim: StatementSync;
  readonly #forget: StatementSync;
  #seq: number;
  #cancelSweep: () => void;

  constructor(state: StateFile, clock: Clock) {
    this.#state = state;
    this.#clock = clock;
    this.#insert = state.prepare(
      'INSERT OR REPLACE INTO events (session, seq, stream, at, message) VALUES (?, ?, ?, ?, ?)',
    );
    this.#trim = state.prepare('DELETE FROM events WHERE session = ? AND stream = ? AND seq <= ?');
    this.#forget = state.prepare('DELETE FROM events WHERE session = ?');
    const last = state.prepare('SELECT MAX(seq) AS seq FROM events').get() as { seq: number | null };
    // Room for what a killed process handed out and did not get to disk.
    this.#seq = last.seq === null ? 0 : last.seq + 1_000_000;
    this.#cancelSweep = clock.after(SWEEP_MS, () => this.#sweep());
  }

  append(sessionId: string, streamName: string, message: Buffer): string {
    const seq = ++this.#seq;
    const at = this.#clock.wall();
    const stream = this.#stream(sessionId, streamName);
    stream.entries.push({ seq, at, message });
    stream.bytes += message.length;
    this.#state.later(() => this.#insert.run(sessionId, seq, streamName, at, message));
    this.#shorten(sessionId, streamName, stream);
    return `${streamName}~${seq.toString(36)}`;
  }

  async after(
    sessionId: string,
    eventId: string,
  ): Promise<{ readonly stream: string; readonly events: readonly LoggedEvent[] } | null> {
    const cut = eventId.lastIndexOf('~');
    if (cut < 0) return null;
    const name = eventId.slice(0, cut);
    const seq = Number.parseInt(eventId.slice(cut + 1), 36);
    const stream = this.#load(sessionId).get(name);
    if (stream === undefined || !stream.entries.some((entry) => entry.seq === seq)) return null;
    const events = stream.entries
      .filter((entry) => entry.seq > seq)
      .map((entry) => ({ eventId: `${name}~${entry.seq.toString(36)}`, message: entry.message }));
    return { stream: name, events };
  }

  forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
    this.#state.later(() => this.#forget.run(sessionId));
  }

  close(): void {
    this.#cancelSweep();
  }

  #stream(sessionId: string, name: string): Stream {
    const streams = this.#load(sessionId);
    let stream = streams.get(name);
    if (stream === undefined) {
      stream = { entries: [], bytes: 0 };
      streams.set(name, stream);
    }
    return stream;
  }

  /** The session's streams; read from disk when this process has not seen the session yet. */
  #load(sessionId: string): Map<string, Stream> {
    const known = this.#sessions.get(sessionId);
    if (known !== undefined) return known;
    const streams = new Map<string, Stream>();
    const rows = this.#state
      .prepare('SELECT seq, stream, at, message FROM events WHERE session = ? AND at > ? ORDER BY seq')
      .all(sessionId, this.#clock.wall() - MAX_AGE_MS) as {
      seq: number;
      stream: string;
      at: number;
      message: Uint8Array;
    }[];
    for (const row of rows) {
      const stream = streams.get(row.stream) ?? { entries: [], bytes: 0 };
      streams.set(row.stream, stream);
      stream.entries.push({ seq: row.seq, at: row.at, message: Buffer.from(row.message) });
      stream.bytes += row.message.length;
    }
    this.#sessions.set(sessionId, streams);
    return streams;
  }

  #shorten(sessionId: string, name: string, stream: Stream): void {
    const oldest = this.#clock.wall() - MAX_AGE_MS;
    let count = 0;
    // The newest event always stays: its id is what a client may come back with.
    while (count < stream.entries.length - 1) {
      const entry = stream.entries[count]!;
      if (stream.bytes <= MAX_STREAM_BYTES && entry.at >= oldest) break;
      stream.bytes -= entry.message.length;
      count++;
    }
    if (count === 0) return;
    const last = stream.entries[count - 1]!.seq;
    stream.entries.splice(0, count);
    this.#state.later(() => this.#trim.run(sessionId, name, last));
  }

  /** Frees what nobody appends to any more. */
  #sweep(): void {
    const oldest = this.#clock.wall() - MAX_AGE_MS;
    for (const [sessionId, streams] of this.#sessions) {
      for (const [name, stream] of streams) {
        const newest = stream.entries.at(-1);
        if (newest !== undefined && newest.at >= oldest) continue;
        streams.delete(name);
        if (newest !== undefined) this.#state.later(() => this.#trim.run(sessionId, name, newest.seq));
      }
      if (streams.size === 0) this.#sessions.delete(sessionId);
    }
    this.#cancelSweep = this.#clock.after(SWEEP_MS, () => this.#sweep());
  }
}
