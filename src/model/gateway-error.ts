import { CATALOGUE, type ErrorCode, type FailureOutcome } from './error-catalogue.ts';
import type { ServerState } from './server-state.ts';
import { causes } from './thrown.ts';

export interface GatewayErrorData {
  readonly outcome: FailureOutcome;
  readonly sent: boolean;
  readonly retryable: boolean;
  readonly retryAfterMs?: number;
  readonly server?: string;
  /** The state of the server, if it is why the call was not sent. */
  readonly state?: ServerState;
  readonly node?: string;
  readonly attempts?: number;
}

/** `outcome` defaults to that of the catalogue; for TIMEOUT and UPSTREAM_PROTOCOL it depends on whether bytes were sent. */
export interface GatewayErrorOptions extends Partial<Omit<GatewayErrorData, 'sent'>> {
  readonly cause?: unknown;
  /** Replaces the message, which is for the operator, in answers to callers; also used by errors that have this one as cause. */
  readonly forCallers?: string;
}

/** A failure of the gateway or one that it observed; never a server's JSON-RPC error. `protocol/` serialises it. */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly data: GatewayErrorData;
  readonly #forCallers: string | null;

  constructor(code: ErrorCode, message: string, options: GatewayErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'GatewayError';
    this.code = code;
    this.#forCallers = options.forCallers ?? null;
    const entry = CATALOGUE[code];
    const outcome = options.outcome ?? entry.outcome;
    this.data = {
      outcome,
      sent: outcome === 'UNKNOWN',
      retryable: options.retryable ?? (outcome === 'UNKNOWN' ? false : entry.retryable),
      ...(options.retryAfterMs === undefined ? {} : { retryAfterMs: options.retryAfterMs }),
      ...(options.server === undefined ? {} : { server: options.server }),
      ...(options.state === undefined ? {} : { state: options.state }),
      ...(options.node === undefined ? {} : { node: options.node }),
      ...(options.attempts === undefined ? {} : { attempts: options.attempts }),
    };
  }

  get outcome(): FailureOutcome {
    return this.data.outcome;
  }

  get forCallers(): string {
    for (const at of causes(this)) {
      if (!(at instanceof GatewayError)) break;
      if (at.#forCallers !== null) return at.#forCallers;
    }
    return this.message;
  }

  /** The same failure for a call whose earlier steps have reached the server, so that the call may have run. */
  begun({ server, attempts }: Pick<GatewayErrorOptions, 'server' | 'attempts'> = this.data): GatewayError {
    if (this.outcome === 'UNKNOWN') return this;
    return new GatewayError(this.code === 'NOT_SENT' ? 'UNKNOWN' : this.code, this.message, {
      outcome: 'UNKNOWN',
      ...(server === undefined ? {} : { server }),
      ...(attempts === undefined ? {} : { attempts }),
      cause: this,
    });
  }

  get rpcCode(): number {
    return CATALOGUE[this.code].rpc;
  }
}

/** The `requestState` is not the one that this gateway gave out for the request. */
export function foreignState(): GatewayError {
  return new GatewayError('INVALID_PARAMS', 'params.requestState was not issued by this gateway for this request');
}

/** The caller cancelled its call before any byte of it was sent to the server. */
export function cancelledBeforeSend(server: string, reason: string): GatewayError {
  return new GatewayError('CANCELLED', reason, { outcome: 'NOT_SENT', server });
}

/** What starting another process of a server needs: nothing, ending an idle process, or a free place that does not exist. */
export type ProcessCapacity = 'free' | 'idle' | 'none';

const RETRY_AFTER_MS = 1_000;

/** The operator's limits allow no further process for the call on this node. It says nothing about the server. */
export class ProcessLimitReached extends GatewayError {
  constructor(server: string, message: string) {
    super('OVERLOADED', message, { server, retryAfterMs: RETRY_AFTER_MS });
  }
}

/** Another node of the cluster owns what this node was about to start. It says nothing about the server. */
export class OwnedElsewhere extends GatewayError {
  constructor(server: string, node: string) {
    super('NOT_SENT', `${server} is owned by node ${node}`, { server });
  }
}

/** This node has no lease or claim at the moment, or cannot reach the store of the owners. It says nothing about the server. */
export class NoLease extends GatewayError {
  constructor(message: string, options: GatewayErrorOptions) {
    super('NOT_SENT', message, options);
  }
}

/** This node may not write to the process of the server, or start it: its lease or claim is gone. */
export function notOwned(server: string): NoLease {
  const text = `this node does not own the process of ${server} at the moment`;
  return new NoLease(text, { server, retryable: true, retryAfterMs: RETRY_AFTER_MS });
}
