import { GatewayError } from '../../model/gateway-error.ts';
import type { PolicyFactory } from './policy.ts';

const MINUTE_MS = 60_000;
/** The number of entries at which expired ones are removed. */
const SWEEP = 1_024;

/**
 * Limits how often one caller may call one tool of the server per minute (`limits.callsPerMinute`): a burst of that many, then
 * one for each that has expired (GCRA). Names that the server does not list share one limit. A call counts once, however often
 * it is sent; a call that an earlier policy refuses does not count.
 */
export const rateLimit: PolicyFactory = ({ name: server, limits: { callsPerMinute } }, { clock }) => {
  if (callsPerMinute === undefined) return null;
  const intervalMs = MINUTE_MS / callsPerMinute;
  /** By caller and tool: when all its calls have expired. */
  const used = new Map<string, number>();
  let sweepAt = SWEEP;
  return (target, exchange) => {
    if (target.kind !== 'tool' || exchange.counted === true) return null;
    const tool = target.definition?.key ?? '';
    const key = `${target.principal.id}\0${tool}`;
    const now = clock.now();
    const from = Math.max(now, used.get(key) ?? 0);
    const waitMs = Math.ceil(from + intervalMs - now - MINUTE_MS);
    if (waitMs > 0) {
      const text = `One caller may call a tool of the server '${server}' ${callsPerMinute} times a minute`;
      return new GatewayError('RATE_LIMITED', text, { server, retryAfterMs: waitMs });
    }
    if (exchange.hypothetical === true) return null;
    exchange.counted = true;
    used.set(key, from + intervalMs);
    if (used.size >= sweepAt) {
      for (const [entry, until] of used) if (until <= now) used.delete(entry);
      sweepAt = Math.max(SWEEP, 2 * used.size);
    }
    return null;
  };
};
