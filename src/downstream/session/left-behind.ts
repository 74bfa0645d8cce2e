import type { Endpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure } from '../../model/outcome.ts';
import type { EventSink, LeftStream, OwedAnswer } from '../../model/stream-copies.ts';
import { notification, request } from '../../protocol/compose.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';
import { answerParts } from './answer-parts.ts';

const GONE = 'the node that ran this call is gone, and how the call ended is unknown';
const NOT_KEPT = 'the call was answered, but its node is gone, and the answer was too large for others to keep';
const GAP =
  'Some messages of this stream were lost with the node that had them. Read again what you depend on: lists, subscribed resources.';

/**
 * Tells a client what a node that is gone had said, and how things stand now: a gap is told of where it is, and whatever
 * was not answered is UNKNOWN. What is ours to say has no event id: coming back, the client is told it anew.
 */
export function sayLeft(sink: EventSink, { events, owed }: LeftStream, endpoint: Endpoint): void {
  for (const { eventId, message, answers } of events) {
    if (message !== null) {
      if (message.length > 0 && !isQuestion(message)) sink.event(eventId, [message]);
    } else if (answers !== null) sink.event(null, unknown(answers, NOT_KEPT, endpoint));
    else sink.event(null, [gap()]);
  }
  for (const one of owed) sink.event(null, unknown(one, GONE, endpoint));
}

/** The asking client is gone: an answer would reach no one. */
function isQuestion(message: Buffer): boolean {
  const scanned = scanMessage(message, 'stateful', 'relaxed');
  return !isScanFailure(scanned) && scanned.kind === 'request';
}

function unknown({ id, method }: OwedAnswer, why: string, endpoint: Endpoint): Buffer[] {
  return answerParts(request(method, id, null, 'stateful'), endpoint, failure(new GatewayError('UNKNOWN', why)));
}

function gap(): Buffer {
  const params = JSON.stringify({ level: 'warning', logger: 'trunkline', data: GAP });
  return notification('notifications/message', params, 'stateful').bytes;
}
