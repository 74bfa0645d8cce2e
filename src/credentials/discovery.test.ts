import assert from 'node:assert/strict';
import { test } from 'node:test';
import { credentialNode, SharedRecords } from '../../test/support/credential-node.ts';
import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import { PLAIN_AUTH } from '../model/credentials.ts';
import { Secret } from '../model/secret.ts';
import type { Server } from '../model/server.ts';
import type { Credential } from './credential.ts';
import { discover } from './discovery.ts';

const ORIGIN = 'https://mcp.example';
const TARGET = `${ORIGIN}/mcp`;
const ISSUER = 'https://as.example';
const AUTH = {
  ...PLAIN_AUTH,
  ...({ grant: 'client_credentials', clientId: 'c', clientSecret: new Secret('our secret'), issuer: ISSUER } as const),
};
const SERVER = {
  name: 'web',
  transport: { type: 'http', url: TARGET, headers: {}, tls: {}, auth: AUTH },
} as unknown as Server;

/** A server without metadata. Any address with `/token` grants tokens; only `issuers` publish metadata. */
function world(...issuers: readonly string[]) {
  const granting: string[] = [];
  const json = (body: object) =>
    new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });
  const fetch: GuardedFetch = async (url) => {
    const { origin, pathname } = new URL(String(url));
    if (pathname === '/token') {
      granting.push(String(url));
      return json({ access_token: `of ${origin}`, token_type: 'bearer' });
    }
    const isMetadata = issuers.includes(origin) && pathname === '/.well-known/oauth-authorization-server';
    return isMetadata
      ? json({ issuer: origin, token_endpoint: `${origin}/token` })
      : new Response(null, { status: 404 });
  };
  return { granting, fetch };
}

test('where auth.issuer publishes no metadata, the secret does not go to the server instead', async () => {
  const { granting, fetch } = world();
  await assert.rejects(discover(fetch, TARGET, null, ISSUER), {
    code: 'AUTH_REQUIRED',
    message: /https:\/\/as\.example, which auth\.issuer names, publishes no metadata; correct auth\.issuer/,
  });
  assert.equal(await credentialNode(new SharedRecords(), fetch).renew(SERVER, null), false);
  assert.deepEqual(granting, []);
});

test('a server without metadata has the endpoints of 2025-03-26, unless auth.issuer names another', async () => {
  for (const issuer of [null, ORIGIN]) {
    const { metadata } = await discover(world().fetch, TARGET, null, issuer);
    assert.deepEqual([metadata.issuer, metadata.token_endpoint], [ORIGIN, `${ORIGIN}/token`]);
  }
});

test('a credential of another issuer is not renewed there once auth.issuer is set', async () => {
  const { granting, fetch } = world(ISSUER);
  const credentials = credentialNode(new SharedRecords(), fetch);
  await credentials.keep({ server: 'web', principal: null }, {
    url: TARGET,
    authority: { metadata: { issuer: ORIGIN, token_endpoint: `${ORIGIN}/token` }, resource: null, scopes: null },
    client: { id: 'c', secret: 'our secret', privateKey: null, authMethod: null },
    scopes: [],
    tokens: { access: 'old', scheme: 'Bearer', refresh: null, expiresAt: null, aheadMs: 0, scopes: [], key: null },
  } satisfies Partial<Credential>);
  assert.equal(await credentials.renew(SERVER, credentials.tokens(SERVER)), true);
  assert.deepEqual([granting, credentials.tokens(SERVER)?.access], [[`${ISSUER}/token`], `of ${ISSUER}`]);
});
