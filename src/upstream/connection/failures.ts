import { GatewayError } from '../../model/gateway-error.ts';

/** Whatever was thrown before anything was sent, as a failure of this server. */
export function asGatewayError(error: unknown, server: string): GatewayError {
  if (error instanceof GatewayError) return error;
  const text = error instanceof Error ? error.message : String(error);
  return new GatewayError('INTERNAL', text, { server, outcome: 'NOT_SENT', cause: error });
}
