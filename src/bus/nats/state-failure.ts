import { GatewayError } from '../../model/gateway-error.ts';
import { jetStreamLack } from './jetstream-lack.ts';

/** Codes of JetStream's answers. */
export const WRONG_REVISION: readonly number[] = [10_071, 10_164];
export const NO_STREAM = 10_059;
export const NO_MESSAGE = 10_037;
/** Nothing has that number any more. */
export const NOT_DELETED = 10_057;
/** A server that is none of several knows no replicas, whatever it calls its cluster. */
export const NO_REPLICAS = 10_074;

/** JetStream's own code of an error; 0 where it is no answer of JetStream's. */
export function apiCode(error: unknown): number {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === 'number' ? code : 0;
}

/** An answer of JetStream says that nothing was done; without one, a write may have been. */
export function stateFailure(error: unknown, doing: 'read' | 'write'): GatewayError {
  if (error instanceof GatewayError) return error;
  const lack = jetStreamLack(error);
  const text = lack ?? (error instanceof Error ? error.message : String(error));
  // What cannot be answered may have been done.
  const unheard = lack?.includes('may not subscribe') === true;
  const answered = (lack !== null && !unheard) || apiCode(error) !== 0 || /not enabled|no responders|503/i.test(text);
  const outcome = doing === 'read' || answered ? 'NOT_SENT' : 'UNKNOWN';
  return new GatewayError(outcome, `the shared state could not be ${doing === 'read' ? 'read' : 'written'}: ${text}`, {
    cause: error,
  });
}
