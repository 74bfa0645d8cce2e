import { CATALOGUE, type ErrorCode, type FailureOutcome } from '../../model/error-catalogue.ts';
import { GatewayError, type GatewayErrorData } from '../../model/gateway-error.ts';

interface FailureJson extends Omit<GatewayErrorData, 'sent' | 'node'> {
  readonly code: string;
  readonly message: string;
  readonly forCallers?: string;
}

export function failureJson(error: GatewayError): Buffer {
  const { code, message, forCallers } = error;
  const { sent: _, node: __, ...data } = error.data;
  const json: FailureJson = { code, message, ...data, ...(forCallers === message ? {} : { forCallers }) };
  return Buffer.from(JSON.stringify(json));
}

const OUTCOMES: readonly string[] = ['NOT_SENT', 'UNKNOWN', 'REFUSED'] satisfies readonly FailureOutcome[];

/** Replaces an unknown code by its outcome (REFUSED: by OVERLOADED). What is no error becomes UNKNOWN. */
export function readFailure(bytes: Buffer): GatewayError {
  let json: FailureJson;
  try {
    json = JSON.parse(bytes.toString()) as FailureJson;
    if (typeof json?.message !== 'string') throw new TypeError('it has no message');
  } catch (cause) {
    return new GatewayError('UNKNOWN', 'another node ended the call with an error that cannot be read', { cause });
  }
  const outcome = OUTCOMES.includes(json.outcome) ? json.outcome : 'UNKNOWN';
  const { message, retryable, retryAfterMs, server, state, attempts, forCallers } = json;
  return new GatewayError(codeOf(json.code, outcome), message, {
    outcome,
    retryable: retryable === true,
    ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}),
    ...(typeof server === 'string' ? { server } : {}),
    ...(typeof state === 'string' ? { state } : {}),
    ...(typeof attempts === 'number' ? { attempts } : {}),
    ...(typeof forCallers === 'string' ? { forCallers } : {}),
  });
}

function codeOf(code: string, outcome: FailureOutcome): ErrorCode {
  if (typeof code === 'string' && Object.hasOwn(CATALOGUE, code)) return code as ErrorCode;
  return outcome === 'REFUSED' ? 'OVERLOADED' : outcome;
}
