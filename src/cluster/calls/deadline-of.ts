import type { Exchange } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import { timeoutOf } from '../../protocol/call-time.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { Place } from '../nodes/routing-table.ts';

/** Nothing that is waited for: it goes on until somebody ends it. */
export function isListen({ method }: Message): boolean {
  return method === LISTEN;
}

/**
 * How long a call to the server may take, as its home keeps it. 0 for what has none, or one that only its home knows:
 * streams, and what waits for a task.
 */
export function deadlineOf(place: Place | undefined, request: Message, exchange: Exchange): number {
  const { method } = request;
  if (isListen(request) || method === 'tasks/result' || exchange.waitsForTask === true) return 0;
  return place === undefined ? 0 : timeoutOf(place.server, request);
}
