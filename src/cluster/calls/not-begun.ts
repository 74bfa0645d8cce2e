import { GatewayError, NoRoom } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Served } from './served-calls.ts';

/** This node is not the one to ask, and did nothing. */
export function elsewhere(reason: string): Served {
  return { kind: 'elsewhere', reason };
}

/** The same for whoever waits. */
export function notHere(reason: string): Promise<Served> {
  return Promise.resolve(elsewhere(reason));
}

/** Nobody has begun it, and there is time left for it. */
export function isUnbegun(outcome: Outcome): boolean {
  if (outcome.kind === 'answer') return false;
  const { outcome: word, code } = outcome.error;
  return isRoomless(outcome) || (word === 'NOT_SENT' && code !== 'TIMEOUT' && code !== 'OVERLOADED');
}

/** This node has no room for the process that it takes. */
export function isRoomless(outcome: Outcome): boolean {
  return outcome.kind === 'failure' && outcome.error instanceof NoRoom;
}

/** What went wrong on the way to another node; rejects with what is nobody's word about a call. */
export function notPassedOn(error: unknown): Promise<Outcome> {
  if (error instanceof GatewayError && error.outcome !== 'UNKNOWN') return Promise.resolve(failure(error));
  return Promise.reject(error);
}
