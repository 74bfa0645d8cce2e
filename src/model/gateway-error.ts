import { CATALOGUE, type ErrorCode, type FailureOutcome } from './error-catalogue.ts';

export interface GatewayErrorData {
  readonly outcome: FailureOutcome;
  readonly sent: boolean;
  readonly retryable: boolean;
  readonly retryAfterMs?: number;
  readonly server?: string;
  readonly node?: string;
  readonly attempts?: number;
}

export interface GatewayErrorOptions {
  /** Defaults to the catalogue's outcome of the code; TIMEOUT and UPSTREAM_PROTOCOL depend on whether bytes went out. */
  readonly outcome?: FailureOutcome;
  readonly retryable?: boolean;
  readonly retryAfterMs?: number;
  readonly server?: string;
  readonly attempts?: number;
  readonly cause?: unknown;
}

/**
 * A failure of the gateway's own, or one it observed; never a server's own JSON-RPC error. Becomes wire bytes
 * only in the codecs of `protocol/`.
 */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly data: GatewayErrorData;

  constructor(code: ErrorCode, message: string, options: GatewayErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'GatewayError';
    this.code = code;
    const entry = CATALOGUE[code];
    const outcome = options.outcome ?? entry.outcome;
    this.data = {
      outcome,
      sent: outcome === 'UNKNOWN',
      retryable: options.retryable ?? (outcome === 'UNKNOWN' ? false : entry.retryable),
      ...(options.retryAfterMs === undefined ? {} : { retryAfterMs: options.retryAfterMs }),
      ...(options.server === undefined ? {} : { server: options.server }),
      ...(options.attempts === undefined ? {} : { attempts: options.attempts }),
    };
  }

  get outcome(): FailureOutcome {
    return this.data.outcome;
  }

  /** The JSON-RPC error code on the wire. */
  get rpcCode(): number {
    return CATALOGUE[this.code].rpc;
  }
}
