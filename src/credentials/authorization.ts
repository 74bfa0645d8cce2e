import * as oauth from 'oauth4webapi';
import { type GuardedFetch, isInternalHost } from '../http/client/guarded-fetch.ts';
import type { Credential } from './credential.ts';
import type { Authority } from './discovery.ts';
import { authorizationEndpoint, registrationEndpoint } from './endpoints.ts';
import { loginRefused } from './login-errors.ts';
import { authenticationOf, type OAuthClient, SECRET_METHODS, through } from './token-endpoint.ts';

/** The URL that the user's browser opens (RFC 6749 §4.1.1, RFC 7636, RFC 8707). */
export async function authorizationUrl(
  { metadata, resource }: Authority,
  client: OAuthClient,
  scopes: readonly string[],
  redirectUri: string,
  verifier: string,
  state: string,
): Promise<string> {
  const url = new URL(authorizationEndpoint(metadata));
  const parameters = {
    response_type: 'code',
    client_id: client.id,
    redirect_uri: redirectUri,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}),
    ...(scopes.includes('offline_access') ? { prompt: 'consent' } : {}),
    ...(resource === null ? {} : { resource }),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** The code in the address that the browser came back to. Throws if `iss` or `state` is invalid (RFC 9207). */
export function codeIn(
  parameters: URLSearchParams,
  { metadata }: Authority,
  client: OAuthClient,
  state: string,
): string | null {
  return oauth.validateAuthResponse(metadata, { client_id: client.id }, parameters, state).get('code');
}

/** Begins a login with a code that the user types (RFC 8628). */
export async function userCode(
  fetch: GuardedFetch,
  { metadata, resource }: Authority,
  client: OAuthClient,
  scopes: readonly string[],
) {
  if (metadata.device_authorization_endpoint === undefined) {
    throw loginRefused(`its authorization server ${metadata.issuer} has no logins with a code; leave out --device`);
  }
  const parameters = {
    ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}),
    ...(resource === null ? {} : { resource }),
  };
  const self = { client_id: client.id };
  const authentication = await authenticationOf(client, metadata);
  const response = await oauth.deviceAuthorizationRequest(metadata, self, authentication, parameters, through(fetch));
  const answer = await oauth.processDeviceAuthorizationResponse(metadata, self, response);
  return {
    url: answer.verification_uri,
    deviceCode: answer.device_code,
    userCode: answer.user_code,
    intervalMs: (answer.interval ?? 5) * 1000,
  };
}

/** Revokes the tokens if the authorization server supports it (RFC 7009). */
export async function revokeTokens(fetch: GuardedFetch, { authority, client, tokens }: Credential): Promise<void> {
  const { metadata } = authority;
  if (tokens === null || metadata.revocation_endpoint === undefined) return;
  const self = { client_id: client.id };
  const authentication = await authenticationOf(client, metadata);
  const token = tokens.refresh ?? tokens.access;
  const response = await oauth.revocationRequest(metadata, self, authentication, token, through(fetch));
  await oauth.processRevocationResponse(response);
}

/** A dynamically registered client. */
export interface RegisteredClient extends OAuthClient {
  /** Wall clock; null or absent if its secret does not expire. */
  readonly secretExpiresAt?: number | null;
}

/**
 * Registers the gateway (RFC 7591). Without oauth4webapi, because many authorization servers answer with little more than the
 * client id, against the standard.
 */
export async function registerClient(
  fetch: GuardedFetch,
  metadata: oauth.AuthorizationServer,
  redirectUri: string | null,
): Promise<RegisteredClient> {
  const { issuer, token_endpoint_auth_methods_supported: methods = ['none'] } = metadata;
  const endpoint = registrationEndpoint(metadata);
  // The client has no key of its own, so it cannot have a method such as private_key_jwt.
  const withSecret = methods.find((one) => SECRET_METHODS.includes(one)) ?? 'client_secret_basic';
  const wantedMethod = methods.includes('none') ? 'none' : withSecret;
  const body = JSON.stringify({
    client_name: 'Trunkline',
    redirect_uris: redirectUri === null ? [] : [redirectUri],
    grant_types: [
      redirectUri === null ? 'urn:ietf:params:oauth:grant-type:device_code' : 'authorization_code',
      'refresh_token',
    ],
    response_types: redirectUri === null ? [] : ['code'],
    token_endpoint_auth_method: wantedMethod,
    application_type: redirectUri === null || isInternalHost(new URL(redirectUri)) ? 'native' : 'web',
  });
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const response = await fetch(endpoint, { method: 'POST', headers, body });
  const answer = (await response.json().catch(() => null)) as Readonly<Record<string, unknown>> | null;
  const { client_id: id, client_secret: secret, token_endpoint_auth_method: method } = answer ?? {};
  if (!response.ok || typeof id !== 'string' || id === '') {
    const why = typeof answer?.['error'] === 'string' ? `: ${answer['error'].slice(0, 100)}` : '';
    const advice = 'register a client there and set auth.clientId in the definition';
    throw loginRefused(
      `its authorization server ${issuer} does not register the gateway (HTTP ${response.status}${why}); ${advice}`,
    );
  }
  const authMethod = typeof method === 'string' ? method : wantedMethod;
  const usable = typeof secret === 'string' && secret !== '' && authMethod !== 'none';
  // 0 means that it does not expire (§3.2.1).
  const expiry = answer?.['client_secret_expires_at'];
  const secretExpiresAt = typeof expiry === 'number' && expiry > 0 ? expiry * 1000 : null;
  return { id, secret: usable ? secret : null, privateKey: null, authMethod, secretExpiresAt };
}
