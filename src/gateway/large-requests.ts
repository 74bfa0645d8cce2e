import { Counts } from '../model/counts.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { LISTEN } from '../protocol/methods.ts';

const MIB = 1024 * 1024;
/** Shorter requests do not count, because the edges limit their number. */
const LARGE_BYTES = 16 * 1024;
/** Bytes of the calls in flight, which end by their deadline, and of the open listens, which do not. */
const MAX_CALLS_BYTES = 512 * MIB;
const MAX_LISTENS_BYTES = 64 * MIB;
const RETRY_AFTER_MS = 1_000;

/**
 * Limits the bytes of large requests, each of which stays in memory until its outcome. One principal may hold half of them; its
 * only large request is never refused.
 */
export class LargeRequests {
  readonly #calls = new Counts();
  readonly #listens = new Counts();

  isLarge({ request }: Exchange): boolean {
    return request.bytes.length > LARGE_BYTES;
  }

  /** The function that gives the bytes of the request back, or why it has to be refused. */
  take({ request, client }: Exchange): (() => void) | GatewayError {
    const { id } = client.principal;
    const { length } = request.bytes;
    const listens = request.method === LISTEN;
    const [held, max] = listens ? [this.#listens, MAX_LISTENS_BYTES] : [this.#calls, MAX_CALLS_BYTES];
    const own = held.of(id);
    if (own > 0 && (own + length > max / 2 || held.total + length > max)) {
      const text = `The large requests in flight hold too much memory (${max / MIB} MiB for all callers, half of it for one): try again when some have ended`;
      return new GatewayError('OVERLOADED', text, { retryAfterMs: RETRY_AFTER_MS });
    }
    held.add(id, length);
    return () => held.add(id, -length);
  }
}
