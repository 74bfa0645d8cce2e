import { HttpFailure } from '../../http/client/http-failure.ts';
import { bearerParameters } from '../../model/bearer-parameters.ts';
import { GatewayError, NoLease } from '../../model/gateway-error.ts';
import type { AuthChallenge } from '../../model/server-state.ts';
import { causes } from '../../model/thrown.ts';
import { Misconfigured } from '../process/command.ts';
import { refusalOf } from '../transport/http-refusal.ts';

/**
 * Class of a server failure (S3.8). `transient`: the next attempt may succeed, so it counts. `configuration` and `tls`: a
 * person has to change something. `auth`: the server requires credentials. `abort`: caused by the gateway, not by the server.
 * `defect`: an unexpected exception in the gateway. An error that a tool reports is an answer and has no class.
 */
export type FailureClass = 'configuration' | 'tls' | 'auth' | 'transient' | 'abort' | 'defect';

/** An exception in the gateway's own code. */
export class Defect extends GatewayError {
  constructor(server: string, message: string, cause: unknown) {
    super('INTERNAL', `a defect of the gateway: ${message}`, { server, outcome: 'NOT_SENT', cause });
  }
}

/** System errors of a program that a second attempt does not fix. */
const CONFIGURATION = new Set(['ENOENT', 'EACCES', 'EPERM', 'ENOEXEC', 'E2BIG', 'ENOTDIR']);
/** Statuses below 500 that concern the moment and not the request. */
const PASSING_STATUS = new Set([408, 425, 429]);

/** Classifies by the types and codes of the causes, never by their messages. */
export function failureClass(error: GatewayError): FailureClass {
  if (error.code === 'AUTH_REQUIRED') return 'auth';
  if (error.code === 'CANCELLED') return 'abort';
  for (const at of causes(error)) {
    const found = classOf(at);
    if (found !== null) return found;
  }
  return error.code === 'UPSTREAM_PROTOCOL' ? 'configuration' : 'transient';
}

/** Whether the server, or what stands before it, was there and answered with a refusal. */
export function wasRefused(error: GatewayError): boolean {
  if (error.code === 'AUTH_REQUIRED' || error.code === 'UPSTREAM_PROTOCOL') return true;
  return causes(error).some((at) => at instanceof GatewayError && refusalOf(at) !== null);
}

/** Whether the node may not start the server before it has its lease. */
export function isMissingLease(error: GatewayError): boolean {
  return causes(error).some((at) => at instanceof NoLease);
}

function classOf(error: Error): FailureClass | null {
  if (error instanceof HttpFailure) {
    if (error.kind === 'tls') return 'tls';
    return error.kind === 'closed' || error.kind === 'malformed' ? 'abort' : 'transient';
  }
  if (error instanceof Misconfigured) return 'configuration';
  if (error instanceof NoLease) return 'abort';
  if (isDefect(error)) return 'defect';
  if (error instanceof GatewayError) {
    const status = refusalOf(error)?.status ?? 0;
    if (status === 0) return null;
    return status >= 500 || PASSING_STATUS.has(status) ? 'transient' : 'configuration';
  }
  return 'code' in error && CONFIGURATION.has(String(error.code)) ? 'configuration' : null;
}

/** Whether a programming error was thrown. Errors with a code are Node's rejection of a value, such as an invalid address. */
function isDefect(error: Error): boolean {
  if (error instanceof Defect) return true;
  const mistake = error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError;
  return mistake && !('code' in error);
}

/** The challenge of the 401 among the causes of the error (RFC 9110 §11.6.1, RFC 9728 §5.1). */
export function challengeOf(error: GatewayError): AuthChallenge {
  const parameters = bearerParameters(headerOf(error));
  const issuer = parameters.get('issuer') ?? parameters.get('authorization_uri') ?? null;
  return {
    resourceMetadata: parameters.get('resource_metadata') ?? null,
    scope: parameters.get('scope') || null,
    issuer,
  };
}

function headerOf(error: GatewayError): string | null {
  for (const at of causes(error)) {
    const refusal = at instanceof GatewayError ? refusalOf(at) : null;
    if (refusal !== null && refusal.challenge !== null) return refusal.challenge;
  }
  return null;
}
