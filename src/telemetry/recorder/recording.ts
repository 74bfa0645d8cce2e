import { appendFileSync, readFileSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { RecordingLimits, RecordingTarget, RecordingView } from '../../model/recordings.ts';
import type { WireSide } from '../../model/wire-tap.ts';
import { sessionLabel } from '../session-label.ts';

export interface RecordingHead extends RecordingTarget, RecordingLimits {
  readonly id: string;
  readonly startedAt: string;
}

/** Where and when a message was recorded. */
interface RecordedAt {
  readonly time: string;
  /** The node that recorded it; absent for a lone gateway. */
  readonly node?: string;
  readonly wire: 'client' | 'server';
  readonly from: WireSide;
  readonly session: string | null;
  /** Common id of the messages of one exchange on both wires. */
  readonly exchange: string | null;
  readonly endpoint?: string;
  readonly server?: string;
  readonly connection?: string;
}

/**
 * One recording: JSON texts, one per line, of which the first describes the recording. With a file, each line is appended as
 * it comes, so after a kill the file is readable up to its last complete line; without one, lines are kept in memory.
 */
export class Recording {
  readonly head: RecordingHead;
  /** Session labels by the recorder's session key. */
  readonly sessions = new Map<string, string>();
  /** Labels of sessions whose client description has been written. */
  readonly described = new Set<string>();
  readonly #servers = new Set<string>();
  readonly #file: string | null;
  readonly #lines: string[] = [];
  #entries = 0;
  #bytes = 0;
  /** Why it stopped; null while it is active. */
  #reason: string | null = null;

  private constructor(head: RecordingHead, file: string | null) {
    this.head = head;
    this.#file = file;
  }

  /** Throws if the file cannot be written. */
  static begin(head: RecordingHead, file: string | null): Recording {
    const recording = new Recording(head, file);
    // If the file cannot be created, the caller gets the error; later write errors end the recording.
    if (file !== null) appendFileSync(file, '', { mode: 0o600 });
    recording.#write(JSON.stringify({ recording: 1, ...head }));
    return recording;
  }

  /** Loads a recording of an earlier process; null if the file is not a recording. */
  static async load(file: string): Promise<Recording | null> {
    try {
      const [first = '', ...lines] = completeLines(await readFile(file, 'utf8'));
      const { recording, ...head } = JSON.parse(first) as RecordingHead & { recording: unknown };
      if (recording !== 1) return null;
      const loaded = new Recording(head, file);
      loaded.#reason = 'the gateway ended';
      loaded.#bytes = Buffer.byteLength(first) + 1;
      for (const line of lines) {
        const { seq, session, server, stopped } = membersOf(line);
        if (seq !== undefined) loaded.#entries++;
        if (session != null) loaded.sessions.set(session, session);
        if (server != null) loaded.#servers.add(server);
        loaded.#reason = stopped ?? loaded.#reason;
        loaded.#bytes += Buffer.byteLength(line) + 1;
      }
      return loaded;
    } catch {
      return null;
    }
  }

  get active(): boolean {
    return this.#reason === null;
  }

  get reason(): string | null {
    return this.#reason;
  }

  /** Records these sessions from now on. */
  addSessions(keys: readonly string[]): void {
    for (const key of keys) this.sessions.set(key, sessionLabel(key));
  }

  get view(): RecordingView {
    const state = !this.active ? 'stopped' : this.#entries === 0 ? 'waiting' : 'recording';
    const sessions = [...new Set(this.sessions.values())];
    const [reason, entries, bytes] = [this.#reason, this.#entries, this.#bytes];
    return { ...this.head, state, reason, entries, bytes, sessions, servers: [...this.#servers] };
  }

  /** The whole recording as text. */
  get jsonl(): string {
    const lines = this.#file === null ? this.#lines : completeLines(readFileSync(this.#file, 'utf8'));
    return lines.map((line) => `${line}\n`).join('');
  }

  /** Writes a line about a session, which does not count as an entry. */
  note(json: string): void {
    if (this.active) this.#write(json);
  }

  /** `message` is redacted JSON text in one line. A returned text says why it was not added and the recording must stop. */
  add(members: RecordedAt, message: string): string | null {
    if (!this.active) return null;
    const { maxEntries, maxBytes } = this.head;
    const line = `${JSON.stringify({ seq: this.#entries + 1, ...members }).slice(0, -1)},"message":${message}}`;
    const full =
      this.#entries >= maxEntries
        ? `it has ${maxEntries} entries, its limit`
        : this.#bytes + Buffer.byteLength(line) >= maxBytes
          ? `it is at its limit of ${maxBytes} bytes`
          : null;
    if (full !== null) return full;
    if (members.server !== undefined) this.#servers.add(members.server);
    this.#entries++;
    this.#write(line);
    return null;
  }

  stop(reason: string): void {
    if (!this.active) return;
    this.note(JSON.stringify({ stopped: reason }));
    this.#reason ??= reason;
  }

  /** Deletes its file. */
  delete(): void {
    this.#reason ??= 'it was deleted';
    if (this.#file !== null) rmSync(this.#file, { force: true });
  }

  #write(line: string): void {
    this.#bytes += Buffer.byteLength(line) + 1;
    try {
      if (this.#file === null) this.#lines.push(line);
      else appendFileSync(this.#file, `${line}\n`);
    } catch (error) {
      this.#reason = `it cannot be written: ${(error as Error).message}`;
    }
  }
}

/** Leaves out the incomplete last line of a killed process. */
function completeLines(text: string): string[] {
  return text.split('\n').slice(0, -1);
}

/** The members of a line; without the message, which is the last member of an entry and may be large. */
function membersOf(line: string): Readonly<Record<string, string | undefined>> {
  const end = line.startsWith('{"seq":') ? line.indexOf(',"message":') : -1;
  return JSON.parse(end < 0 ? line : `${line.slice(0, end)}}`);
}
