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

/** `outcome` defaults to the catalogue's; TIMEOUT and UPSTREAM_PROTOCOL depend on whether bytes went out. */
export interface GatewayErrorOptions extends Partial<Omit<GatewayErrorData, 'sent'>> {
  readonly cause?: unknown;
  /** The message for callers in place of the message, which is for the operator; holds for all that have it as cause. */
  readonly forCallers?: string;
}

/** Errors of a start are wrapped a few times on their way to a caller. */
const MAX_CAUSES = 8;

/** A failure that the gateway had or observed; never a server's JSON-RPC error. `protocol/` writes its bytes. */
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
      ...(options.node === undefined ? {} : { node: options.node }),
      ...(options.attempts === undefined ? {} : { attempts: options.attempts }),
    };
  }

  get outcome(): FailureOutcome {
    return this.data.outcome;
  }

  get forCallers(): string {
    let at: unknown = this;
    for (let depth = 0; at instanceof GatewayError && depth < MAX_CAUSES; depth++) {
      if (at.#forCallers !== null) return at.#forCallers;
      at = at.cause;
    }
    return this.message;
  }

  /** The failure of a later step of something whose earlier ones have reached the server, so that it may have run. */
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

/** The caller took its call back before any of it went to the server. */
export function calledOff(server: string, reason: string): GatewayError {
  return new GatewayError('CANCELLED', reason, { outcome: 'NOT_SENT', server });
}

/** What a further process of a server would take: nothing, the end of one that is idle, or all are in use. */
export type Room = 'free' | 'idle' | 'none';

const RETRY_AFTER_MS = 1_000;

/** No process more may be started for the call at this node, by the operator's limits. It says nothing of the server. */
export class NoRoom extends GatewayError {
  constructor(server: string, message: string) {
    super('OVERLOADED', message, { server, retryAfterMs: RETRY_AFTER_MS });
  }
}

/** Another node of the cluster has what should be begun here. It says nothing of the server. */
export class OwnedElsewhere extends GatewayError {
  constructor(server: string, node: string) {
    super('NOT_SENT', `${server} is owned by node ${node}`, { server });
  }
}

/** This node has no lease at the moment, or does not reach the store that says who owns what. It says nothing of the server. */
export class NoLease extends GatewayError {
  constructor(message: string, options: GatewayErrorOptions) {
    super('NOT_SENT', message, options);
  }
}
