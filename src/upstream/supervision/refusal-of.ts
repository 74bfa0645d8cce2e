import { GatewayError } from '../../model/gateway-error.ts';
import { LOGIN_ADVICE, type ServerState } from '../../model/server-state.ts';

/** What a call hears that a server in this state cannot take; `error` led to the state. */
export function refusalOf(
  server: string,
  state: ServerState,
  error: GatewayError | null,
  retryAfterMs: number,
): GatewayError {
  const notSent = (text: string, more: { readonly retryable?: false; readonly retryAfterMs?: number }) =>
    new GatewayError('NOT_SENT', text, { server, ...more, cause: error ?? undefined });
  switch (state) {
    case 'auth_required':
      return new GatewayError('AUTH_REQUIRED', `${server} asks for credentials; ${LOGIN_ADVICE}`, { server });
    case 'misconfigured':
      return notSent(`${server} is misconfigured: ${error?.message}`, { retryable: false });
    case 'defect':
      return notSent(`${server} is out of service until it is restarted: ${error?.message}`, { retryable: false });
    case 'suspended':
    case 'stopped':
    case 'disconnected':
    case 'stopping':
      return new GatewayError('NOT_SENT', `${server} is ${state}`, { server, retryable: false });
    default:
      if (state === 'failed' && error?.code === 'OVERLOADED') return error;
      return notSent(`${server} is ${state}${error === null ? '' : `: ${error.message}`}`, { retryAfterMs });
  }
}
