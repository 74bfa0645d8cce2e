import type { SharedLog } from '../../bus/shared-log.ts';
import type { Clock } from '../../model/clock.ts';
import { eventIdOf, readEventId } from '../../model/event-id.ts';
import type {
  CopiedStream,
  OrphanedEvent,
  OrphanedStream,
  StreamCopies,
  StreamCopy,
  UnansweredRequest,
} from '../../model/stream-copies.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

/** Events within this time form one log entry; a node that dies loses those it has not written. */
const BATCH_MS = 10;
/** A larger event is omitted and marked. */
const MAX_EVENT_BYTES = 512 * 1024;
const MAX_BATCH_BYTES = 256 * 1024;
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
const MAX_EVENTS = 512;
/** Reserved for the rest of an entry. */
const ROOM_BYTES = 64 * 1024;

/** The message is the next piece, unless it is omitted. */
interface CopiedEvent {
  /** Number in the event's id, and number of the previous event on the stream (0: unknown). */
  readonly seq: number;
  readonly prev: number;
  /** The message is omitted, because it is too large. */
  readonly left?: true;
  readonly answers?: UnansweredRequest;
}

/** Each entry describes its stream completely, so that any other entry may be lost. */
interface CopiedEvents {
  readonly kind: 'events';
  readonly sessionId: string;
  readonly principal: string;
  readonly owed: readonly UnansweredRequest[];
  readonly events: readonly CopiedEvent[];
}

/** Another node continues the stream after `eventId`, an event of its own stream; later entries do not count. */
interface CopyEnds {
  readonly kind: 'next';
  readonly sessionId: string;
  readonly principal: string;
  readonly eventId: string;
}

/**
 * Copies the streams of this node's clients to the log, for other nodes when this one is gone. Events do not wait for the log:
 * readers detect gaps by the numbers.
 */
export class StreamCopyWriter implements StreamCopies {
  readonly #log: SharedLog;
  readonly #clock: Clock;
  readonly #waiting = new Set<Copy>();
  #bytes = 0;
  #armed = false;

  constructor(log: SharedLog, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  begin(stream: CopiedStream): StreamCopy {
    return new Copy(this, stream);
  }

  get most(): number {
    return Math.min(MAX_EVENT_BYTES, this.#log.maxEntryBytes - ROOM_BYTES);
  }

  wait(copy: Copy, bytes: number): void {
    this.#bytes += bytes;
    this.#waiting.add(copy);
    if (copy.hurries || copy.bytes >= MAX_BATCH_BYTES || copy.count >= MAX_EVENTS) this.#write(copy);
    else if (this.#bytes >= MAX_WAITING_BYTES) this.flush();
    else if (!this.#armed) {
      this.#armed = true;
      this.#clock.after(BATCH_MS, () => {
        this.#armed = false;
        this.flush();
      });
    }
  }

  flush(): void {
    for (const copy of this.#waiting) this.#write(copy);
  }

  #write(copy: Copy): void {
    this.#waiting.delete(copy);
    this.#bytes -= copy.bytes;
    this.#log.append(copy.name, Buffer.concat(copy.take()));
  }
}

class Copy implements StreamCopy {
  bytes = 0;
  hurries = false;
  readonly #copies: StreamCopyWriter;
  readonly #stream: CopiedStream;
  #events: CopiedEvent[] = [];
  #messages: Buffer[] = [];
  #prev = 0;

  constructor(copies: StreamCopyWriter, stream: CopiedStream) {
    this.#copies = copies;
    this.#stream = stream;
  }

  get name(): string {
    return this.#stream.name;
  }

  get count(): number {
    return this.#events.length;
  }

  add(eventId: string, message: Buffer, answers: UnansweredRequest | null): void {
    const { seq } = readEventId(eventId)!;
    const most = this.#copies.most;
    const left = message.length > most;
    const bytes = left ? 0 : message.length;
    if (this.bytes > 0 && this.bytes + bytes > most) this.#copies.flush();
    this.#events.push({
      seq,
      prev: this.#prev,
      ...(left ? { left } : {}),
      ...(answers === null ? {} : { answers }),
    });
    // The message is in pooled memory, which is reused when the client has it.
    if (!left) this.#messages.push(Buffer.from(message));
    this.#prev = seq;
    this.bytes += bytes;
    this.#copies.wait(this, bytes);
  }

  hurry(): void {
    this.hurries = true;
    if (this.count > 0) this.#copies.wait(this, 0);
  }

  end(): void {
    this.#copies.wait(this, 0);
  }

  take(): Buffer[] {
    const { sessionId, principal, unanswered } = this.#stream;
    const header: CopiedEvents = { kind: 'events', sessionId, principal, owed: unanswered(), events: this.#events };
    const frame = packFrame(header, this.#messages);
    this.#events = [];
    this.#messages = [];
    this.bytes = 0;
    return frame;
  }
}

/** Strict, because the name is one in the log, too. */
const STREAM = /^[gp][0-9a-f]{8}\.[0-9a-f]{16}[0-9a-z]{1,12}$/;

/** Reads what a node that is gone had sent after the event. Returns null if nothing is known. Never rejects. */
export async function readOrphanedStream(
  log: SharedLog,
  sessionId: string,
  principal: string,
  eventId: string,
): Promise<OrphanedStream | null> {
  const event = readEventId(eventId);
  if (event === null || !STREAM.test(event.stream)) return null;
  const { stream: name, seq } = event;
  try {
    const { entries, position } = await log.read(name);
    const found = read(entries, name, seq, sessionId, principal);
    return found && { name, sessionId, principal, position, ...found };
  } catch {
    return null;
  }
}

/** Marks the stream as taken over. False if another node has done so, or has written meanwhile. Rejects with GatewayError. */
export async function takeOverStream(
  log: SharedLog,
  { name, sessionId, principal, next, position }: OrphanedStream,
  eventId: string,
): Promise<boolean> {
  if (next !== null) return false;
  const end: CopyEnds = { kind: 'next', sessionId, principal, eventId };
  return log.appendAfter(name, Buffer.concat(packFrame(end)), position);
}

function read(
  entries: readonly Buffer[],
  name: string,
  after: number,
  sessionId: string,
  principal: string,
): Pick<OrphanedStream, 'events' | 'unanswered' | 'next'> | null {
  const events: OrphanedEvent[] = [];
  let known = false;
  let last = after;
  let owed: readonly UnansweredRequest[] = [];
  let gap = false;
  const answered = new Set<string>();
  const asked = new Map<string, UnansweredRequest>();
  for (const entry of entries) {
    const { header, pieces } = unpackFrame<CopiedEvents | CopyEnds>(entry);
    // Another session or principal must not see the stream.
    if (header.sessionId !== sessionId || header.principal !== principal) return null;
    if (header.kind === 'next') return { events, unanswered: owed, next: header.eventId };
    if (header.kind !== 'events') continue;
    known = true;
    ({ owed } = header);
    for (const one of owed) asked.set(one.id, one);
    let piece = 0;
    for (const { seq, prev, left, answers } of header.events) {
      const message = left === true ? null : pieces[piece++]!;
      if (answers !== undefined) answered.add(answers.id);
      if (seq <= last) continue;
      if (prev > last) {
        gap = true;
        events.push({ eventId: null, message: null, answers: null });
      }
      events.push({ eventId: eventIdOf(name, seq), message, answers: answers ?? null });
      last = seq;
    }
  }
  if (!known) return null;
  for (const { id } of owed) answered.add(id);
  // A request that was asked, and is neither open nor answered in an entry, was answered in the gap.
  for (const answers of asked.values()) {
    if (gap && !answered.has(answers.id)) events.push({ eventId: null, message: null, answers });
  }
  return { events, unanswered: owed, next: null };
}
