import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import { systemClock } from '../model/clock.ts';
import { systemRandom } from '../model/random.ts';
import { registerClient } from './authorization.ts';
import { type OAuthClient, requestTokens, type Tokens } from './token-endpoint.ts';

const ISSUER = 'https://as.example';
const TOKENS = { access_token: 'access-1', refresh_token: 'refresh-1', token_type: 'Bearer', expires_in: 3600 };

const metadataOf = (methods: readonly string[]) => ({
  issuer: ISSUER,
  token_endpoint: `${ISSUER}/token`,
  registration_endpoint: `${ISSUER}/register`,
  token_endpoint_auth_methods_supported: [...methods],
});

const json = (body: object) => new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });

/** The tokens for a refresh token. `methods`: of the authorization server. */
function renewed(fetch: GuardedFetch, secret: string | null, methods: readonly string[]): Promise<Tokens> {
  const client: OAuthClient = { id: 'c', secret, privateKey: null, authMethod: null };
  const authority = { metadata: metadataOf(methods), resource: null, scopes: null };
  const parameters = { refresh_token: 'refresh-0' };
  const given = { fetch, authority, client, key: null, grant: 'refresh_token', parameters };
  return requestTokens({ ...given, clock: systemClock, random: systemRandom });
}

test('the gateway registers with the first listed authentication method that needs no key', async () => {
  for (const [methods, wanted] of [
    [['private_key_jwt', 'client_secret_basic', 'client_secret_post'], 'client_secret_basic'],
    [['private_key_jwt', 'client_secret_post', 'client_secret_basic'], 'client_secret_post'],
    [['client_secret_post', 'client_secret_basic'], 'client_secret_post'],
    [['client_secret_basic', 'none'], 'none'],
    [['private_key_jwt', 'tls_client_auth'], 'client_secret_basic'],
  ] as const) {
    const asked: string[] = [];
    const fetch: GuardedFetch = async (_url, init) => {
      asked.push(JSON.parse(String(init?.body)).token_endpoint_auth_method);
      return json({ client_id: 'c', client_secret: 'secret' });
    };
    const { authMethod, secret } = await registerClient(fetch, metadataOf(methods), 'https://gateway.example/back');
    assert.deepEqual([asked, authMethod, secret], [[wanted], wanted, wanted === 'none' ? null : 'secret']);
  }
});

test('the secret of the definition is sent wherever the authorization server takes one', async () => {
  for (const [methods, wanted] of [
    [['none', 'client_secret_post'], 'post'],
    [['private_key_jwt', 'none', 'client_secret_post'], 'post'],
    [['none', 'client_secret_post', 'client_secret_basic'], 'basic'],
    [['private_key_jwt'], 'post'],
    [['none'], 'none'],
  ] as const) {
    const sent: string[] = [];
    const fetch: GuardedFetch = async (_url, init) => {
      const posted = new URLSearchParams(String(init?.body)).get('client_secret') === 'secret';
      sent.push(new Headers(init?.headers).has('authorization') ? 'basic' : posted ? 'post' : 'none');
      return json(TOKENS);
    };
    assert.equal((await renewed(fetch, 'secret', methods)).access, 'access-1');
    assert.deepEqual(sent, [wanted], methods.join());
  }
});

test('tokens are used whatever ID token comes with them', async () => {
  const now = Math.floor(systemClock.wall() / 1000);
  const idToken = (alg: string, claims: object) => {
    const all = { iss: ISSUER, aud: 'c', sub: 'user', iat: now, exp: now + 600, ...claims };
    const parts = [{ alg }, all].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'));
    return `${parts.join('.')}.c2ln`;
  };
  for (const token of [idToken('ES256', {}), idToken('RS256', { nbf: now + 60 }), 'no token', 7]) {
    const { access, refresh } = await renewed(async () => json({ ...TOKENS, id_token: token }), null, ['none']);
    assert.deepEqual([access, refresh], ['access-1', 'refresh-1']);
  }
});
