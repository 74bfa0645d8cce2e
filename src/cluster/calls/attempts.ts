import type { Exchange } from '../../model/exchange.ts';
import { GatewayError, NoRoom } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { timeoutOf } from '../../protocol/body.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { Place } from '../nodes/routing-table.ts';

export type Served = Outcome | { readonly kind: 'elsewhere'; readonly reason: string };

export function elsewhere(reason: string): Served {
  return { kind: 'elsewhere', reason };
}

/** The same as a promise. */
export function notHere(reason: string): Promise<Served> {
  return Promise.resolve(elsewhere(reason));
}

export function isUnbegun(outcome: Outcome): boolean {
  if (outcome.kind === 'answer') return false;
  const { outcome: word, code } = outcome.error;
  return isRoomless(outcome) || (word === 'NOT_SENT' && code !== 'TIMEOUT' && code !== 'OVERLOADED');
}

export function isRoomless(outcome: Outcome): boolean {
  return outcome.kind === 'failure' && outcome.error instanceof NoRoom;
}

/** Errors on the way to another node; rejects with errors that are no outcome of a call. */
export function notPassedOn(error: unknown): Promise<Outcome> {
  if (error instanceof GatewayError && error.outcome !== 'UNKNOWN') return Promise.resolve(failure(error));
  return Promise.reject(error);
}

export function isListen({ method }: Message): boolean {
  return method === LISTEN;
}

/** The deadline as the serving node keeps it; 0 for streams, waits for a task, and what only its node knows. */
export function deadlineOf(place: Place | undefined, request: Message, exchange: Exchange): number {
  const { method } = request;
  if (isListen(request) || method === 'tasks/result' || exchange.waitsForTask === true) return 0;
  return place === undefined ? 0 : timeoutOf(place.server, request);
}
