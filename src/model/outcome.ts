import type { GatewayError } from './gateway-error.ts';
import type { Message } from './message.ts';

/**
 * How a call ended; every call ends in exactly one. `answer` is RESULT: the server's own result or its own
 * JSON-RPC error, as it wrote it. `failure` is NOT_SENT, UNKNOWN or REFUSED: see `GatewayError.outcome`.
 */
export type Outcome =
  | { readonly kind: 'answer'; readonly message: Message }
  | { readonly kind: 'failure'; readonly error: GatewayError };

export function answer(message: Message): Outcome {
  return { kind: 'answer', message };
}

export function failure(error: GatewayError): Outcome {
  return { kind: 'failure', error };
}
