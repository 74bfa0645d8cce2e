import type { Exchange } from '../../model/exchange.ts';
import { GatewayError, NoRoom } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { timeoutOf } from '../../protocol/body.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { Place } from '../nodes/routing-table.ts';

/** What becomes of a call that another node sent here: its outcome, or why this node is not the one to ask. */
export type Served = Outcome | { readonly kind: 'elsewhere'; readonly reason: string };

/** This node is not the one to ask, and did nothing. */
export function elsewhere(reason: string): Served {
  return { kind: 'elsewhere', reason };
}

/** The same as a promise. */
export function notHere(reason: string): Promise<Served> {
  return Promise.resolve(elsewhere(reason));
}

/** It has not begun, and there is time left for it. */
export function isUnbegun(outcome: Outcome): boolean {
  if (outcome.kind === 'answer') return false;
  const { outcome: word, code } = outcome.error;
  return isRoomless(outcome) || (word === 'NOT_SENT' && code !== 'TIMEOUT' && code !== 'OVERLOADED');
}

/** This node has no room for the process that it takes. */
export function isRoomless(outcome: Outcome): boolean {
  return outcome.kind === 'failure' && outcome.error instanceof NoRoom;
}

/** What went wrong on the way to another node; rejects with errors that are no outcome of a call. */
export function notPassedOn(error: unknown): Promise<Outcome> {
  if (error instanceof GatewayError && error.outcome !== 'UNKNOWN') return Promise.resolve(failure(error));
  return Promise.reject(error);
}

/** A stream: it goes on until it is cancelled. */
export function isListen({ method }: Message): boolean {
  return method === LISTEN;
}

/**
 * How long a call to the server may take, as its node keeps it. 0 for what has none, or one that only its node knows:
 * streams, and what waits for a task.
 */
export function deadlineOf(place: Place | undefined, request: Message, exchange: Exchange): number {
  const { method } = request;
  if (isListen(request) || method === 'tasks/result' || exchange.waitsForTask === true) return 0;
  return place === undefined ? 0 : timeoutOf(place.server, request);
}
