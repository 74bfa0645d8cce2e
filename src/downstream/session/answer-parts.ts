import { shapeFailure } from '../../gateway/failure-shape.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import type { Era, Message } from '../../model/message.ts';
import { isForOneCaller, type Outcome, replaceAnswer } from '../../model/outcome.ts';
import { bodyString } from '../../protocol/body.ts';
import { isAsSevere, isLogLevel } from '../../protocol/meta-keys.ts';
import { withId } from '../../protocol/splice.ts';
import { errorToStateful, notificationToStateful, resultToStateful } from '../../protocol/stateful/to-stateful.ts';
import { errorToStateless, notificationToStateless, resultToStateless } from '../../protocol/stateless/to-stateless.ts';

/** The answer to the request, in its client's vocabulary; it does not have the client's id yet. */
export function answerMessage(request: Message, endpoint: Endpoint, outcome: Outcome): Message {
  if (outcome.kind === 'failure') return shapeFailure(request, endpoint, outcome.error);
  return replaceAnswer(outcome.message, translated(request, outcome.message), request.method);
}

function translated(request: Message, message: Message): Message {
  if (message.era === request.era) return message;
  if (request.era === 'stateful') {
    return message.kind === 'error'
      ? errorToStateful(message, request.method)
      : resultToStateful(message, request.method, false, isForOneCaller(request.method));
  }
  return message.kind === 'error'
    ? errorToStateless(message, request.method, uriOf(request))
    : resultToStateless(message, request.method, null, isForOneCaller(request.method));
}

/** As `answerMessage`, as bytes with the client's own id: large bodies as views, not copies. */
export function answerParts(request: Message, endpoint: Endpoint, outcome: Outcome): Buffer[] {
  return withId(answerMessage(request, endpoint, outcome), request.id);
}

/** The notification in the client's vocabulary; null if that has no such notification, or the client did not ask for it. */
export function notificationFor(era: Era, notification: Message, client: ClientProfile): Buffer | null {
  if (notification.method === 'notifications/message' && !wantsToHear(client, era, notification)) return null;
  if (notification.era === era) return notification.bytes;
  const translated = era === 'stateful' ? notificationToStateful(notification) : notificationToStateless(notification);
  return translated?.bytes ?? null;
}

/** Filters log messages by the client's own level: the server may send them for another client that asked for more. */
function wantsToHear({ logLevel }: ClientProfile, era: Era, message: Message): boolean {
  if (logLevel === null) return era === 'stateful';
  const level = bodyString(message, 'level');
  return !isLogLevel(level) || !isLogLevel(logLevel) || isAsSevere(level, logLevel);
}

function uriOf(request: Message): string | null {
  return request.method === 'resources/read' ? bodyString(request, 'uri') : null;
}
