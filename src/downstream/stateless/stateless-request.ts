import { ANONYMOUS, type ClientProfile, type Principal } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { answer, failure } from '../../model/outcome.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { Fingerprints } from '../endpoints/fingerprints.ts';
import { listenCompletion } from '../endpoints/handshake-answer.ts';
import type { Returning } from '../pending-input/pending-input-requests.ts';
import type { ClientExchange, ExchangeList } from '../session/client-exchange.ts';
import { settle } from '../session/session-intake.ts';

/** What a request says of its client. `handle` keeps clients of one principal apart; null where nothing does. */
export function senderOf(
  { revision, capabilities, info, logLevel }: StatelessInbound,
  principal: Principal,
  fingerprints: Fingerprints,
  handle: string | null,
): ClientProfile {
  const fingerprint = fingerprints.of(capabilities);
  return { principal, sessionId: null, revision, capabilities, fingerprint, info, logLevel, handle };
}

/**
 * Whether servers' states are bound to this caller here (proto:S6). Only the anonymous user of one server's own
 * endpoint gets them as they are: there is no caller to bind them to, and one server to come back to.
 */
export function sealsInput(endpoint: Endpoint, principal: Principal): boolean {
  return endpoint.kind === 'aggregate' || principal.id !== ANONYMOUS.id;
}

/** Sends a request back to the call that waits for it, or refuses it; false where the request is to be run. */
export function goesBack(exchange: ClientExchange, returning: Returning | null): boolean {
  switch (returning?.kind) {
    case 'refused':
      exchange.finish(failure(returning.error));
      return true;
    case 'resumes':
      returning.call.attach(exchange, returning.responses);
      return true;
    case 'elsewhere':
      void settle(exchange, returning.run(exchange));
      return true;
    default:
      return false;
  }
}

/** Ends listening streams with their completion results (2026-07-28 subscriptions §Graceful Closure). */
export function completeListens(
  exchanges: ExchangeList,
  reason: string,
  which: (listen: ClientExchange) => boolean = () => true,
): void {
  for (const exchange of exchanges.all()) {
    const { request } = exchange;
    if (request.method === LISTEN && which(exchange)) exchange.conclude(answer(listenCompletion(request)), reason);
  }
}
