import { CallAttempts } from '../../model/call-attempts.ts';
import { type Clock, withTimeout } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError, ProcessLimitReached } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { timeoutOf } from '../../protocol/body.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { Place } from '../nodes/routing-table.ts';

export type Served = Outcome | { readonly kind: 'elsewhere'; readonly reason: string };

export function elsewhere(reason: string): Served {
  return { kind: 'elsewhere', reason };
}

export function notHere(reason: string): Promise<Served> {
  return Promise.resolve(elsewhere(reason));
}

export function didNotStart(outcome: Outcome): boolean {
  if (outcome.kind === 'answer') return false;
  const { outcome: word, code } = outcome.error;
  return isCapacityFailure(outcome) || (word === 'NOT_SENT' && code !== 'TIMEOUT' && code !== 'OVERLOADED');
}

export function isCapacityFailure(outcome: Outcome): boolean {
  return outcome.kind === 'failure' && outcome.error instanceof ProcessLimitReached;
}

/** Adds the time since `since` to `triedMs`, which counts against the deadline but not against the search for a node. */
export function addTriedTime(exchange: Exchange, since: number, clock: Clock): void {
  exchange.searchStartedAt ??= since;
  exchange.triedMs = (exchange.triedMs ?? 0) + clock.now() - since;
}

/** Waits for the look-up of the owner and adds its time to `triedMs`. Rejects with GatewayError NOT_SENT at the deadline. */
export async function inTime<T>(
  work: Promise<T>,
  place: Place,
  request: Message,
  exchange: Exchange,
  clock: Clock,
): Promise<T> {
  const { name } = place.server;
  const since = clock.now();
  const timeoutMs = deadlineOf(place, request, exchange) || Number.POSITIVE_INFINITY;
  const found = await withTimeout(clock, (exchange.searchStartedAt ?? since) + timeoutMs - since, work, () => {
    throw new GatewayError('NOT_SENT', `the owner of ${name} was not found in time`, { server: name });
  });
  addTriedTime(exchange, since, clock);
  return found;
}

/** Records a failed attempt at this node, where the call did not begin, and begins the next attempt. */
export function recordLocalFailure(exchange: Exchange, since: number, clock: Clock, error: GatewayError): void {
  addTriedTime(exchange, since, clock);
  failedAttempt(exchange, clock, error).begins(clock.turnNow());
}

type Failing = Pick<GatewayError, 'outcome' | 'message'>;

/** Records a failed attempt that another attempt follows. */
export function failedAttempt(exchange: Exchange, clock: Clock, error: Failing): CallAttempts {
  const attempts = (exchange.attempts ??= new CallAttempts());
  const now = clock.turnNow();
  attempts.add(exchange.searchStartedAt ?? now, now, error, attempts.carrier, exchange.servedBy);
  exchange.servedBy = undefined;
  return attempts;
}

/** Resolves with a failure for a GatewayError other than UNKNOWN; rejects with any other error. */
export function notPassedOn(error: unknown): Promise<Outcome> {
  if (error instanceof GatewayError && error.outcome !== 'UNKNOWN') return Promise.resolve(failure(error));
  return Promise.reject(error);
}

export function isListen({ method }: Message): boolean {
  return method === LISTEN;
}

/** The timeout that the serving node enforces; 0 (none) for streams, waits for a task, and servers without a place. */
export function deadlineOf(place: Place | undefined, request: Message, exchange: Exchange): number {
  const { method } = request;
  if (isListen(request) || method === 'tasks/result' || exchange.waitsForTask === true) return 0;
  return place === undefined ? 0 : timeoutOf(place.server, request);
}
