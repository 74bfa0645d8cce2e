import type { AuthorizationServer } from 'oauth4webapi';
import { loginRefused } from './login-errors.ts';

/** Where users sign in. Throws if the authorization server has no such endpoint or no PKCE. */
export function authorizationEndpoint(metadata: AuthorizationServer): string {
  const { issuer, authorization_endpoint: endpoint, code_challenge_methods_supported: methods } = metadata;
  if (endpoint === undefined || !/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    throw loginRefused(`its authorization server ${issuer} has no authorization endpoint`);
  }
  if (methods?.includes('S256') !== true) {
    throw loginRefused(`its authorization server ${issuer} does not offer PKCE with S256, which OAuth 2.1 demands`);
  }
  return endpoint;
}

/** Where clients register (RFC 7591). Throws if they cannot. */
export function registrationEndpoint({ issuer, registration_endpoint: endpoint }: AuthorizationServer): string {
  if (endpoint !== undefined) return endpoint;
  const advice = 'register a client there and set auth.clientId (and auth.clientSecret) in the definition';
  throw loginRefused(`its authorization server ${issuer} registers no clients; ${advice}`);
}

/** The gateway's metadata document as client id; null if the authorization server does not support it (proto:T8). */
export function clientDocument(document: string | null, metadata: AuthorizationServer): string | null {
  return metadata['client_id_metadata_document_supported'] === true ? document : null;
}
