import type { AuthorizationServer, ResourceServer } from 'oauth4webapi';
import { FetchFailed, type GuardedFetch } from '../http/client/guarded-fetch.ts';
import { isObject } from '../model/json-object.ts';
import { loginRefused } from './login-errors.ts';

/** The authorization server of a server, and the parameters of its tokens. */
export interface Authority {
  readonly metadata: AuthorizationServer;
  /** The published resource, for the `resource` parameter (RFC 8707); null if the server publishes no metadata. */
  readonly resource: string | null;
  /** The scopes that the server publishes; null if it publishes none. */
  readonly scopes: readonly string[] | null;
}

/**
 * Finds the authorization server of a server: protected resource metadata at the URL of the challenge or at the well-known
 * places (RFC 9728), then the metadata of its first authorization server (RFC 8414 and OpenID, in the order of the
 * specification). A server without the former is its own authorization server, as in 2025-03-26 (proto:T6).
 */
export async function discover(
  fetch: GuardedFetch,
  serverUrl: string,
  metadataUrl: string | null,
  onlyIssuer: string | null,
): Promise<Authority> {
  const url = new URL(serverUrl);
  const resource = await resourceMetadata(fetch, url, metadataUrl);
  if (resource === null) {
    const issuer = onlyIssuer ?? url.origin;
    const metadata = await issuerMetadata(fetch, issuer);
    // The server's own endpoints would get the secret that the operator meant for this issuer alone.
    if (metadata === null && issuer !== url.origin) {
      throw loginRefused(
        `its authorization server ${short(issuer)}, which auth.issuer names, publishes no metadata; correct auth.issuer, or set it to ${url.origin} if the server is its own authorization server`,
      );
    }
    return { metadata: metadata ?? withoutMetadata(issuer), resource: null, scopes: null };
  }
  if (!covers(resource.resource, url)) {
    throw loginRefused(
      `its metadata is for another resource (${short(resource.resource)}), not for ${short(url.href)}; if that is the server, make it the url of the definition`,
    );
  }
  const issuers = listed(resource.authorization_servers) ?? [];
  const issuer = onlyIssuer === null ? issuers[0] : issuers.find((one) => one === onlyIssuer);
  if (issuer === undefined) {
    if (issuers.length === 0) throw loginRefused('its metadata names no authorization server');
    const named = issuers.map(short).join(', ');
    throw loginRefused(
      `it names the authorization servers ${named}, and not ${onlyIssuer}; set auth.issuer to one of them`,
    );
  }
  const metadata = await issuerMetadata(fetch, issuer);
  if (metadata === null) throw loginRefused(`its authorization server ${short(issuer)} publishes no metadata`);
  return { metadata, resource: resource.resource, scopes: listed(resource.scopes_supported) };
}

/** The texts of a list; null if the value is no list. */
function listed(value: unknown): readonly string[] | null {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : null;
}

async function resourceMetadata(fetch: GuardedFetch, url: URL, named: string | null): Promise<ResourceServer | null> {
  const path = url.pathname === '/' ? '' : url.pathname;
  const known = `${url.origin}/.well-known/oauth-protected-resource`;
  const places = named === null ? [...new Set([`${known}${path}`, known])] : [named];
  for (const place of places) {
    const found = (await document(fetch, place)) as ResourceServer | null;
    if (typeof found?.resource === 'string') return found;
  }
  if (named === null) return null;
  throw loginRefused(`there is no protected resource metadata at ${short(named)}, which its challenge names`);
}

/** Whether the resource is the server's URL or a parent path of it (RFC 8707 §2, MCP authorization §canonical URI). */
function covers(resource: string, url: URL): boolean {
  if (!URL.canParse(resource)) return false;
  const { origin, pathname } = new URL(resource);
  const folder = pathname.endsWith('/') ? pathname : `${pathname}/`;
  return origin === url.origin && `${url.pathname}/`.startsWith(folder);
}

/** The metadata of the issuer; null if it publishes none. Rejects if it belongs to another issuer. */
async function issuerMetadata(fetch: GuardedFetch, issuer: string): Promise<AuthorizationServer | null> {
  if (!URL.canParse(issuer)) throw loginRefused('it names an authorization server that is not a URL');
  const { origin, pathname } = new URL(issuer);
  const path = pathname === '/' ? '' : pathname.replace(/\/$/, '');
  const [oauth, openid] = ['oauth-authorization-server', 'openid-configuration'];
  const places = [`${origin}/.well-known/${oauth}${path}`, `${origin}/.well-known/${openid}${path}`];
  if (path !== '') places.push(`${origin}${path}/.well-known/${openid}`);
  for (const place of places) {
    const found = (await document(fetch, place)) as AuthorizationServer | null;
    if (found === null) continue;
    if (found.issuer === issuer) return found;
    throw loginRefused(`the metadata of ${short(issuer)} is that of another issuer (${short(String(found.issuer))})`);
  }
  return null;
}

/** A proxy or server answers so while the document cannot be read, though it may exist. */
const TEMPORARY = new Set([429, 502, 503, 504]);

/** The JSON object at the URL; null if there is none. */
async function document(fetch: GuardedFetch, place: string): Promise<object | null> {
  const response = await fetch(place, { headers: { accept: 'application/json' } });
  if (TEMPORARY.has(response.status))
    throw new FetchFailed(`${short(place)} answers ${response.status}; try again later`);
  if (!response.ok) return null;
  const value: unknown = await response.json().catch(() => null);
  return isObject(value) ? value : null;
}

/** The endpoints that 2025-03-26 prescribes for a server without metadata. */
function withoutMetadata(origin: string): AuthorizationServer {
  return {
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    code_challenge_methods_supported: ['S256'],
  };
}

function short(text: string): string {
  return text.replaceAll(/[^\x21-\x7e]/g, '?').slice(0, 200);
}
