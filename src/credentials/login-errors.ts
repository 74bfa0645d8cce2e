import { EgressRefused, FetchFailed } from '../http/client/guarded-fetch.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { StoreError } from '../store/run-time-store/run-time-store.ts';

/** The login cannot continue because of what the server or its authorization server says. */
export function loginRefused(words: string, cause?: unknown): GatewayError {
  return new GatewayError('AUTH_REQUIRED', words, cause === undefined ? {} : { cause });
}

/** There is nothing to sign in to, according to the definition. */
export function noLogin(words: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', words);
}

/** An error of a login or token request, in words without secrets and with the name of the server. */
export function toGatewayError(server: string, error: unknown): GatewayError {
  const say = (code: GatewayError['code'], words: string): GatewayError =>
    new GatewayError(code, `${server}: ${words}`, { server, cause: error });
  if (error instanceof GatewayError) return say(error.code, error.message);
  const answer = errorAnswer(error);
  if (answer !== null) {
    const description = answer.description === null ? '' : `: ${clean(answer.description)}`;
    const advice = refusesClient(error) ? `; ${CLIENT_ADVICE}` : '';
    return say('AUTH_REQUIRED', `the authorization server answers ${clean(answer.code)}${description}${advice}`);
  }
  if (error instanceof StoreError)
    return say('NOT_SENT', 'the store of the gateway does not answer; try again in a moment');
  if (error instanceof EgressRefused) return say('AUTH_REQUIRED', error.message);
  if (error instanceof FetchFailed) return say('NOT_SENT', error.message);
  if (refusesClient(error))
    return say('AUTH_REQUIRED', `the authorization server refuses the gateway's client (HTTP 401); ${CLIENT_ADVICE}`);
  const { code } = error as { code?: string };
  if (code?.startsWith('OAUTH_') === true)
    return say('AUTH_REQUIRED', `the authorization server is not right: ${clean((error as Error).message)}`);
  return say('NOT_SENT', `the authorization server cannot be reached (${clean(code ?? 'no connection')})`);
}

const CLIENT_ADVICE = 'correct the client that the definition names; if it names none, begin the login again';

/** Whether the authorization server refuses the client: `invalid_client`, or a 401 with a challenge (RFC 6749 §5.2). */
export function refusesClient(failure: unknown): boolean {
  const { code, status } = failure as { code?: string; status?: number };
  const challenged = code === 'OAUTH_WWW_AUTHENTICATE_CHALLENGE' && status === 401;
  return challenged || errorAnswer(failure)?.code === 'invalid_client';
}

const ANSWERS = new Set(['OAUTH_AUTHORIZATION_RESPONSE_ERROR', 'OAUTH_RESPONSE_BODY_ERROR']);

/** The `error` that the authorization server answered, else null. Checks names, because the library is loaded later. */
export function errorAnswer(failure: unknown): { readonly code: string; readonly description: string | null } | null {
  const { code, error, error_description: description = null } = failure as Partial<Record<string, string>>;
  return code !== undefined && ANSWERS.has(code) ? { code: error ?? '', description } : null;
}

function clean(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 200);
}
