import type { GatewayError } from '../../model/gateway-error.ts';
import type { Server } from '../../model/server.ts';
import { field } from '../../protocol/fields.ts';

/** Attempts of one call, whatever happens. */
const MAX_ATTEMPTS = 3;
/** F23: a server that asks for patience gets it for so long; beyond that the caller is told at once. */
const MAX_PATIENCE_MS = 30_000;

export type Verdict = { readonly kind: 'give_up' } | { readonly kind: 'again'; readonly afterMs: number };

const GIVE_UP: Verdict = { kind: 'give_up' };
const AT_ONCE: Verdict = { kind: 'again', afterMs: 0 };

/**
 * Whether a call whose attempt failed is tried again, unseen by the client. What never left the gateway is (F02, F24); what
 * may have run is not, unless the operator said that this server's tools may run twice. `tool` is the server's definition of
 * the called tool, null for other methods or when it is not known.
 */
export function decideRetry(error: GatewayError, attempts: number, server: Server, tool: Buffer | null): Verdict {
  if (attempts >= MAX_ATTEMPTS) return GIVE_UP;
  const { outcome, retryAfterMs } = error.data;
  if (error.code === 'OVERLOADED') {
    const patient = retryAfterMs !== undefined && retryAfterMs <= MAX_PATIENCE_MS && attempts > 0;
    return patient ? { kind: 'again', afterMs: retryAfterMs } : GIVE_UP;
  }
  if (outcome === 'REFUSED') return GIVE_UP;
  if (outcome === 'NOT_SENT') return error.code === 'NOT_SENT' && error.data.retryable ? AT_ONCE : GIVE_UP;
  if (error.code !== 'UNKNOWN' || attempts > 1) return GIVE_UP;
  if (server.retry === 'always') return AT_ONCE;
  return server.retry === 'hints' && server.trusted && tool !== null && isRepeatable(tool) ? AT_ONCE : GIVE_UP;
}

/** The tool says that calling it twice is as good as once: `readOnlyHint` or `idempotentHint`. */
function isRepeatable(tool: Buffer): boolean {
  const annotations = field(tool, 0, tool.length, 'annotations');
  if (annotations === null) return false;
  return ['readOnlyHint', 'idempotentHint'].some((hint) => {
    const value = field(tool, annotations.start, annotations.end, hint);
    return value !== null && tool.toString('latin1', value.start, value.end) === 'true';
  });
}
