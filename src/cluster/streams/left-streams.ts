import type { SharedLog } from '../../bus/shared-log.ts';
import type { LeftEvent, LeftStream, OwedAnswer } from '../../model/stream-copies.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import { type CopiedEvents, type CopyEnds, numberOf } from './stream-copies.ts';

/** As we write them, and nothing else: they become the names of logs. */
const EVENT_ID = /^([gp][0-9a-f]{8}\.[0-9a-f]{16}[0-9a-z]{1,12})~[0-9a-z]{1,12}$/;

interface Read {
  readonly events: readonly LeftEvent[];
  readonly owed: readonly OwedAnswer[];
  readonly next: string | null;
}

/** Reads what nodes that are gone have written down of their streams. */
export class LeftStreams {
  readonly #log: SharedLog;

  constructor(log: SharedLog) {
    this.#log = log;
  }

  /** What followed this event, for whoever the stream was for; null where nothing is known. Never rejects. */
  async after(sessionId: string, principal: string, eventId: string): Promise<LeftStream | null> {
    const name = EVENT_ID.exec(eventId)?.[1];
    if (name === undefined) return null;
    try {
      const { entries, position } = await this.#log.read(name);
      const found = read(entries, name, numberOf(eventId), sessionId, principal);
      return found === null ? null : { name, sessionId, principal, position, ...found };
    } catch {
      return null;
    }
  }

  /**
   * Whoever reads it from now on is told that it goes on after this event; false where somebody has written meanwhile.
   * Rejects with GatewayError.
   */
  async takeOver({ name, sessionId, principal, next, position }: LeftStream, eventId: string): Promise<boolean> {
    if (next !== null) return false;
    const end: CopyEnds = { kind: 'next', sessionId, principal, eventId };
    return this.#log.appendAfter(name, Buffer.concat(packFrame(end)), position);
  }
}

function read(
  entries: readonly Buffer[],
  name: string,
  after: number,
  sessionId: string,
  principal: string,
): Read | null {
  const events: LeftEvent[] = [];
  let known = false;
  let last = after;
  let owed: readonly OwedAnswer[] = [];
  let gap = false;
  const answered = new Set<string>();
  const asked = new Map<string, OwedAnswer>();
  for (const entry of entries) {
    const { header, pieces } = unpackFrame<CopiedEvents | CopyEnds>(entry);
    // Whoever it is not for learns nothing of it.
    if (header.sessionId !== sessionId || header.principal !== principal) return null;
    if (header.kind === 'next') return { events, owed, next: header.eventId };
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
      events.push({ eventId: `${name}~${seq.toString(36)}`, message, answers: answers ?? null });
      last = seq;
    }
  }
  if (!known) return null;
  for (const { id } of owed) answered.add(id);
  // What is not owed any more, and not there, was answered in the gap.
  for (const answers of asked.values()) {
    if (gap && !answered.has(answers.id)) events.push({ eventId: null, message: null, answers });
  }
  return { events, owed, next: null };
}
