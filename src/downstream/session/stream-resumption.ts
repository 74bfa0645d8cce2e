import { OwnExchange } from '../../gateway/own-exchange.ts';
import type { RequestContext } from '../../http/listener/request-context.ts';
import { readEventId } from '../../model/event-id.ts';
import type { Endpoint, Exchanges } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure } from '../../model/outcome.ts';
import type { EventLog, LoggedEvents } from '../../model/ports.ts';
import type { EventSink, OrphanedStream, StreamsElsewhere, UnansweredRequest } from '../../model/stream-copies.ts';
import { request } from '../../protocol/compose.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';
import { sendError } from '../endpoints/send.ts';
import { answerParts } from './answer-parts.ts';
import type { ClientSession } from './client-session.ts';
import { gapWarning, RETRY_MS, replay } from './logged-stream.ts';
import type { SessionTable } from './session-table.ts';
import type { StandaloneStreams, Successor } from './standalone-streams.ts';

interface StreamResumptionDeps {
  readonly events: EventLog;
  readonly sessions: SessionTable;
  readonly others?: StreamsElsewhere | undefined;
  readonly core: Pick<Exchanges, 'run'>;
  /** The GET streams of a session, one of which is about to be opened. */
  readonly standalone: (session: ClientSession) => StandaloneStreams;
}

/** A stream may have continued at several nodes that failed in turn; a longer chain is not followed. */
const MAX_STEPS = 8;
const NOTHING = Buffer.alloc(0);

/**
 * Serves clients that reconnect with `Last-Event-ID`: they get what they missed on the stream of that event only
 * (2025-11-25 transports, resumability). A live node of the stream serves it; otherwise the copy that its node left, after
 * which a pending answer is UNKNOWN, and a GET stream of the session continues as one of this node.
 */
export class StreamResumption {
  readonly #deps: StreamResumptionDeps;

  constructor(deps: StreamResumptionDeps) {
    this.#deps = deps;
  }

  async resume(context: RequestContext, session: ClientSession, lastEventId: string): Promise<void> {
    if (readEventId(lastEventId) === null) {
      return sendError(context, 400, 'Last-Event-ID is malformed: send it as it was received, or leave it out');
    }
    let sink: EventSink | null = null;
    const open = (): EventSink => {
      sink ??= context.openSse();
      return sink;
    };
    if (await this.#resume(session, lastEventId, open)) return;
    if (lastEventId.startsWith(session.streamHead('g'))) {
      // Nothing after the event is in the log: the client gets what is sent from now on.
      this.#deps.standalone(session).connect(open());
    } else sendError(context, 400, 'Nothing can be replayed after this event');
  }

  /** Serves a stream of this node to a client that reconnected to another node; false if this node has no such stream. */
  async resumeFor(sessionId: string, lastEventId: string, open: () => EventSink): Promise<boolean> {
    const session = this.#deps.sessions.get(sessionId);
    if (session !== undefined) return this.#resumeHere(session, lastEventId, open);
    const found = await this.#deps.events.after(sessionId, lastEventId).catch(() => null);
    return found !== null && replayed(found, lastEventId, open);
  }

  async #resume(session: ClientSession, lastEventId: string, open: () => EventSink): Promise<boolean> {
    const { others } = this.#deps;
    if (others === undefined || !others.isElsewhere(lastEventId)) {
      if (await this.#resumeHere(session, lastEventId, open)) return true;
      return (await others?.resumeAnywhere(session.id, lastEventId, open)) ?? false;
    }
    const how = await others.resume(session.id, lastEventId, open);
    if (how !== 'gone') return how === 'served';
    const left = await others.findOrphaned(session.id, session.client.principal.id, lastEventId);
    if (left !== null) return this.#continueStream(session, left, others, lastEventId, open);
    // A restarted node has a new name but the same log: this node, or another.
    if (await this.#resumeHere(session, lastEventId, open)) return true;
    return others.resumeAnywhere(session.id, lastEventId, open);
  }

  /**
   * Replays what the client missed on the stream of the event. Returns false, without a call of `open`, if this node has
   * nothing after the event.
   */
  async #resumeHere(session: ClientSession, lastEventId: string, open: () => EventSink): Promise<boolean> {
    for (const { stream } of session.replies?.values() ?? []) {
      if (stream === null || readEventId(lastEventId)?.stream !== stream.name) continue;
      await stream.resume(open(), lastEventId);
      return true;
    }
    const found = await this.#deps.events.after(session.id, lastEventId);
    if (found === null) return false;
    if (!isOwn(lastEventId, session)) return replayed(found, lastEventId, open);
    await this.#deps.standalone(session).resume(found.stream, open(), lastEventId);
    return true;
  }

  /** Looks for the answer at the node that runs the call; if there is none, reports the outcome as unknown. */
  async #answer(sink: EventSink, unanswered: UnansweredRequest, session: ClientSession): Promise<void> {
    const { client, endpoint } = session;
    const bytes = Buffer.from(unanswered.request ?? '');
    const message = scanMessage(bytes, 'stateful', 'relaxed');
    let answer: Buffer[] | null = null;
    if (!isScanFailure(message) && !session.ended && !sink.closed) {
      const exchange = new ReturnedExchange(`returned ${unanswered.id}`, message, client);
      const { onClose } = sink;
      sink.onClose = () => {
        onClose?.();
        exchange.cancel('the client has gone');
      };
      const outcome = await this.#deps.core.run(exchange, endpoint);
      // Any other failure concerns this search, not the call.
      if (outcome.kind === 'answer' || exchange.found) answer = answerParts(message, endpoint, outcome);
    }
    sink.event(null, answer ?? unknown(unanswered, GONE, endpoint));
  }

  /** Sends what a failed node left of the stream, and then continues the stream. */
  async #continueStream(
    session: ClientSession,
    left: OrphanedStream,
    others: StreamsElsewhere,
    lastEventId: string,
    open: () => EventSink,
  ): Promise<boolean> {
    if (!isOwn(lastEventId, session)) {
      if (left.events.length === 0 && left.unanswered.length === 0) return false;
      const sink = open();
      sendOrphanedEvents(sink, { ...left, unanswered: [] }, session.endpoint);
      await Promise.all(left.unanswered.map((one) => this.#answer(sink, one, session)));
      sink.end();
      return true;
    }
    let now: OrphanedStream = left;
    let after = lastEventId;
    let sent = false;
    let successor: Successor | null = null;
    for (let step = 0; step < MAX_STEPS; step++) {
      if (now.next === null) {
        // One for all steps: messages for the session are logged on it from now on.
        successor ??= this.#deps.standalone(session).successor();
        const { stream, startId } = successor;
        if (await others.takeOver(now, startId)) {
          const sink = open();
          sendOrphanedEvents(sink, now, session.endpoint);
          // Later events are those of this node. Older revisions read an event without data as a malformed message.
          if (session.client.revision === '2025-11-25') {
            sink.retry(RETRY_MS);
            sink.event(startId, [NOTHING]);
          }
          await stream.resume(sink, startId);
          return true;
        }
      } else {
        const sink = open();
        sendOrphanedEvents(sink, now, session.endpoint);
        sent = true;
        const how = others.isElsewhere(now.next) ? await others.resume(session.id, now.next, open) : 'here';
        if (how === 'none') break;
        if (how !== 'gone') {
          if (successor?.startId !== now.next) successor?.abandon();
          return how === 'served' || this.#resumeHere(session, now.next, open);
        }
      }
      after = now.next ?? after;
      const found = await others.findOrphaned(session.id, session.client.principal.id, after);
      if (found === null) break;
      now = found;
      sent = false;
    }
    // No node has recorded this takeover: an old event id does not lead to this stream.
    if (!sent) sendOrphanedEvents(open(), now, session.endpoint);
    this.#deps.standalone(session).connect(open());
    return true;
  }
}

/** A request that a client sent to a node that has failed: its answer may still arrive. */
class ReturnedExchange extends OwnExchange {
  readonly returned = true;
  counted = true;
  found = false;
}

function replayed(found: LoggedEvents, lastEventId: string, open: () => EventSink): boolean {
  if (found.events.length === 0) return false;
  const sink = open();
  replay(sink, found, lastEventId);
  sink.end();
  return true;
}

/** Whether the event is of one of the session's GET streams. */
function isOwn(eventId: string, session: ClientSession): boolean {
  return eventId.startsWith(session.streamHead('g'));
}

const GONE = 'the node that passed this call on is gone, and how the call ended is unknown';
const NOT_KEPT = 'the call was answered, but its node is gone, and the answer was too large for others to keep';
const GAP =
  'Some messages of this stream were lost with the node that had them. Read again what you depend on: lists, subscribed resources.';

/**
 * Sends a client the events that a failed node left, and how its calls ended: a gap is reported where it occurred, and an
 * unanswered call is UNKNOWN. The gateway's own messages have no event id, so a client that reconnects gets them again.
 */
function sendOrphanedEvents(sink: EventSink, { events, unanswered: owed }: OrphanedStream, endpoint: Endpoint): void {
  for (const { eventId, message, answers } of events) {
    if (message !== null) {
      if (message.length > 0 && !isServerRequest(message)) sink.event(eventId, [message]);
    } else if (answers !== null) sink.event(null, unknown(answers, NOT_KEPT, endpoint));
    else sink.event(null, [gapWarning(GAP)]);
  }
  for (const one of owed) sink.event(null, unknown(one, GONE, endpoint));
}

/** A request of the failed node, which cannot receive the answer. */
function isServerRequest(message: Buffer): boolean {
  const scanned = scanMessage(message, 'stateful', 'relaxed');
  return !isScanFailure(scanned) && scanned.kind === 'request';
}

function unknown({ id, method }: UnansweredRequest, why: string, endpoint: Endpoint): Buffer[] {
  return answerParts(request(method, id, null, 'stateful'), endpoint, failure(new GatewayError('UNKNOWN', why)));
}
