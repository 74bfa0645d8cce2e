import { createHash, createPrivateKey, type JsonWebKey, type webcrypto } from 'node:crypto';
import { exportJWK, generateKeyPair, importJWK, importPKCS8, type JWK, SignJWT } from 'jose';
import * as oauth from 'oauth4webapi';
import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import type { Clock } from '../model/clock.ts';
import { parseObject } from '../model/json-object.ts';
import type { Random } from '../model/random.ts';
import { MASK } from '../model/secret.ts';
import type { Authority } from './discovery.ts';
import { loginRefused } from './login-errors.ts';

/** The gateway as registered at the authorization server. */
export interface OAuthClient {
  readonly id: string;
  readonly secret: string | null;
  /** PKCS 8 PEM. */
  readonly privateKey: string | null;
  /** The method of its registration; null: one that the authorization server supports. */
  readonly authMethod: string | null;
}

/** The result of a token request. */
export interface Tokens {
  readonly access: string;
  /** `Bearer` or `DPoP`. */
  readonly scheme: string;
  readonly refresh: string | null;
  /** Wall clock; null if the token does not expire. */
  readonly expiresAt: number | null;
  /** How long before that the gateway renews it; random, so that many tokens are not renewed at the same time. */
  readonly aheadMs: number;
  readonly scopes: readonly string[];
  /** Private key that the token is bound to (RFC 9449); null for bearer tokens. */
  readonly key: JWK | null;
}

/** Input of a token request. */
export interface TokenRequest {
  readonly fetch: GuardedFetch;
  readonly authority: Authority;
  readonly client: OAuthClient;
  /** The key of an earlier token, `new` for a new key, or null for a bearer token. */
  readonly key: JWK | 'new' | null;
  readonly grant: string;
  readonly parameters: Readonly<Record<string, string | null>>;
  readonly clock: Pick<Clock, 'wall'>;
  readonly random: Random;
}

const AHEAD_MS = 60_000;
const HEADER_TEXT = /^[\x20-\x7e]+$/;
/** The client authentication methods that need only a secret, in the order of preference. */
export const SECRET_METHODS: readonly string[] = ['client_secret_basic', 'client_secret_post'];

/** One token request for any grant; repeats it once with a nonce if the endpoint demands one. Rejects as oauth4webapi does. */
export async function requestTokens(request: TokenRequest): Promise<Tokens> {
  const { fetch, authority, client, grant, clock, random } = request;
  const { metadata, resource } = authority;
  const jwk = request.key === 'new' ? await newKey() : request.key;
  const self: oauth.Client = { client_id: client.id };
  const parameters = new URLSearchParams();
  const given = { ...request.parameters, ...(resource === null ? {} : { resource }) };
  for (const [name, value] of Object.entries(given)) if (value !== null && value !== '') parameters.set(name, value);
  const options = {
    ...through(fetch),
    ...(jwk === null ? {} : { DPoP: oauth.DPoP(self, await keyPair(jwk)) }),
  };
  const ask = async (): Promise<oauth.TokenEndpointResponse> => {
    const authentication = await authenticationOf(client, metadata);
    const response = await oauth.genericTokenEndpointRequest(
      metadata,
      self,
      authentication,
      grant,
      parameters,
      options,
    );
    return oauth.processGenericTokenEndpointResponse(metadata, self, response);
  };
  const answer = await ask()
    .catch((error: unknown) => {
      if (!oauth.isDPoPNonceError(error)) throw error;
      return ask();
    })
    .catch((error: unknown) => {
      throw withoutSecrets(error, [...SECRET.map((name) => parameters.get(name)), client.secret]);
    });
  if (!HEADER_TEXT.test(answer.access_token)) {
    throw loginRefused('its authorization server issued an access token with characters that HTTP does not allow');
  }
  const scope = answer.scope ?? request.parameters['scope'] ?? '';
  return {
    access: answer.access_token,
    scheme: answer.token_type === 'dpop' ? 'DPoP' : 'Bearer',
    refresh: answer.refresh_token ?? null,
    expiresAt: answer.expires_in === undefined ? null : clock.wall() + answer.expires_in * 1000,
    aheadMs: Math.min(AHEAD_MS, (answer.expires_in ?? 0) * 250) * (0.5 + random.unit() / 2),
    scopes: scope.split(' ').filter((one) => one !== ''),
    key: answer.token_type === 'dpop' ? jwk : null,
  };
}

/** Parameters that must not be shown to others. */
const SECRET = ['code', 'code_verifier', 'refresh_token', 'device_code', 'subject_token', 'assertion'];

/** Some authorization servers repeat the request in a refusal, which users and logs see. */
function withoutSecrets(error: unknown, secrets: readonly (string | null)[]): unknown {
  if (!(error instanceof oauth.ResponseBodyError) || error.error_description === undefined) return error;
  for (const secret of secrets) {
    if (secret !== null && secret !== '') {
      error.error_description = error.error_description.replaceAll(secret, MASK);
    }
  }
  return error;
}

/** Options for requests of the library. `fetch` checks the address, with or without TLS. */
export function through(fetch: GuardedFetch) {
  const sent: GuardedFetch = async (target, init) => withoutIdToken(await fetch(target, init));
  return { [oauth.customFetch]: sent as never, [oauth.allowInsecureRequests]: true };
}

/** The gateway uses no ID tokens, but the library refuses the whole answer if it does not accept the ID token in it. */
async function withoutIdToken(response: Response): Promise<Response> {
  const body = response.status === 200 ? parseObject(await response.clone().text()) : null;
  if (body === null || !('id_token' in body)) return response;
  const { id_token: _, ...rest } = body;
  return new Response(JSON.stringify(rest), { status: 200, headers: response.headers });
}

export async function authenticationOf(
  client: OAuthClient,
  metadata: oauth.AuthorizationServer,
): Promise<oauth.ClientAuth> {
  const { secret, privateKey, authMethod } = client;
  if (privateKey !== null) return oauth.PrivateKeyJwt(await signingKey(privateKey));
  if (secret === null) return oauth.None();
  const supported = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  const method = authMethod ?? SECRET_METHODS.find((one) => supported.includes(one)) ?? supported[0];
  if (method === 'client_secret_basic') return basic(secret);
  return method === 'none' ? oauth.None() : oauth.ClientSecretPost(secret);
}

/** oauth4webapi encodes `-`, which some servers compare without decoding; RFC 6749 §2.3.1 leaves it unencoded. */
export function basic(secret: string): oauth.ClientAuth {
  return (_as, { client_id: id }, _body, headers) => {
    const [user, password] = [id, secret].map((text) => new URLSearchParams([['', text]]).toString().slice(1));
    headers.set('authorization', `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`);
  };
}

async function signingKey(pem: string): Promise<webcrypto.CryptoKey> {
  try {
    const { asymmetricKeyType: type, asymmetricKeyDetails: details } = createPrivateKey(pem);
    const curves: Record<string, string> = { prime256v1: 'ES256', secp384r1: 'ES384', secp521r1: 'ES512' };
    const algorithm = type === 'ec' ? curves[details?.namedCurve ?? ''] : type === 'rsa' ? 'RS256' : 'Ed25519';
    return await importPKCS8(pem, algorithm ?? 'ES256');
  } catch (cause) {
    throw loginRefused('auth.privateKey is not a private key in PKCS 8 PEM', cause);
  }
}

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  return { ...(await exportJWK(privateKey)), alg: 'ES256' };
}

async function keyPair(jwk: JWK): Promise<webcrypto.CryptoKeyPair> {
  const [privateKey, publicKey] = await Promise.all([importJWK(jwk, 'ES256'), importJWK(publicPart(jwk), 'ES256')]);
  return { privateKey: privateKey as webcrypto.CryptoKey, publicKey: publicKey as webcrypto.CryptoKey };
}

/** The public part of an elliptic-curve key. */
function publicPart({ d: _, ...rest }: JWK): JWK & JsonWebKey {
  return rest as JWK & JsonWebKey;
}

/** A proof of possession for one request with a token that is bound to a key (RFC 9449 §4.2). */
export async function dpopProof(
  { access, key }: Tokens,
  method: string,
  url: string,
  nonce: string | null,
  random: Random,
): Promise<string> {
  const { origin, pathname } = new URL(url);
  const claims = {
    htm: method,
    htu: `${origin}${pathname}`,
    ath: createHash('sha256').update(access).digest('base64url'),
    jti: random.hex(16),
    ...(nonce === null ? {} : { nonce }),
  };
  return new SignJWT(claims)
    .setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk: publicPart(key!) })
    .setIssuedAt()
    .sign(await importJWK(key!, 'ES256'));
}
