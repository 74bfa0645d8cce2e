import assert from 'node:assert/strict';
import { test } from 'node:test';
import { credentialNode, SharedRecords } from '../../test/support/credential-node.ts';
import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import { PLAIN_AUTH } from '../model/credentials.ts';
import { Secret } from '../model/secret.ts';
import type { Server } from '../model/server.ts';
import type { Credential } from './credential.ts';
import { discover } from './discovery.ts';
import { toGatewayError } from './login-errors.ts';

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

test('a token that no header can carry is not kept', async () => {
  const { fetch } = world();
  const credentials = credentialNode(new SharedRecords(), async (url, init) => {
    const answer = await fetch(url, init);
    return answer.ok ? new Response((await answer.text()).replace('of ', 'of\\n'), answer) : answer;
  });
  const server = {
    ...SERVER,
    transport: { ...SERVER.transport, auth: { ...AUTH, issuer: ORIGIN } },
  } as unknown as Server;
  assert.equal(await credentials.renew(server, null), false);
  assert.equal(credentials.tokens(server), null);
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

test('a metadata address that answers 503 is a temporary failure and stores nothing; 404 means no metadata', async () => {
  const records = new SharedRecords();
  const { granting, fetch } = world();
  let status = 503;
  const credentials = credentialNode(records, async (url, init) => {
    const response = await fetch(url, init);
    return response.status === 404 ? new Response(null, { status }) : response;
  });
  const server = { ...SERVER, transport: { ...SERVER.transport, auth: { ...AUTH, issuer: null } } } as Server;
  const place = `${ORIGIN}/.well-known/oauth-protected-resource/mcp`;
  const refused = await credentials.discover(server, credentials.fetchFor('web', TARGET)).catch((error) => error);
  const { code, message } = toGatewayError('web', refused);
  assert.deepEqual([code, message], ['NOT_SENT', `web: ${place} answers 503; try again later`]);
  assert.equal(await credentials.renew(server, null), false);
  assert.deepEqual([await records.list('credentials'), granting], [[], []]);
  status = 404;
  assert.equal(await credentials.renew(server, null), true);
  assert.deepEqual(granting, [`${ORIGIN}/token`]);
});
