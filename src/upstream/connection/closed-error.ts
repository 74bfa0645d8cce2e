import { GatewayError } from '../../model/gateway-error.ts';
import { tellingLine } from '../process/telling-line.ts';
import type { HttpRefusal } from '../transport/http-refusal.ts';
import type { ClosedReason } from '../transport/transport.ts';

/**
 * Why a connection ended, in words for status and for those who wait for the next one: nothing of theirs was sent.
 * `stderr` is the tail of what its process wrote there.
 */
export function closedError(server: string, reason: ClosedReason, stderr = ''): GatewayError {
  switch (reason.kind) {
    case 'exited': {
      const line = tellingLine(stderr, reason.code, reason.signal);
      const said = line === null ? '' : `: ${line}`;
      const text = `the process of ${server} ${exit(reason.code, reason.signal)}${said}`;
      return new GatewayError('NOT_SENT', text, { server });
    }
    case 'session_lost':
      return new GatewayError('NOT_SENT', `${server} no longer knows our session`, { server });
    case 'auth_required':
      return new GatewayError('AUTH_REQUIRED', `${server} asks for credentials`, {
        server,
        cause: { status: 401, challenge: reason.challenge } satisfies HttpRefusal,
      });
    case 'unreachable':
    case 'protocol': {
      const { error } = reason;
      return new GatewayError(error.code, error.message, { server, outcome: 'NOT_SENT', cause: error });
    }
  }
}

function exit(code: number | null, signal: string | null): string {
  if (signal !== null) return `was ended by ${signal}`;
  return code === null ? 'ended' : `exited with code ${code}`;
}
