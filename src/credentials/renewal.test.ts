import assert from 'node:assert/strict';
import { test } from 'node:test';
import { credentialNode as node, SharedRecords } from '../../test/support/credential-node.ts';
import { FakeClock } from '../../test/support/fake-clock.ts';
import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import { type AuthSpec, PLAIN_AUTH } from '../model/credentials.ts';
import { Secret } from '../model/secret.ts';
import type { Server } from '../model/server.ts';
import type { Credential } from './credential.ts';
import { Leases } from './lease.ts';

const URL_OF_SERVER = 'https://mcp.example/mcp';
const SERVER = {
  name: 'a',
  transport: { type: 'http', url: URL_OF_SERVER, headers: {}, tls: {} },
} as unknown as Server;

/** The server with these settings of its `auth`. */
const withAuth = (auth: Partial<AuthSpec>) =>
  ({ ...SERVER, transport: { ...SERVER.transport, auth: { ...PLAIN_AUTH, ...auth } } }) as Server;

/** A token endpoint that rotates refresh tokens: it refuses a used one. */
function rotating() {
  let generation = 0;
  const counts = { exchanges: 0, refused: 0 };
  const fetch: GuardedFetch = async (_url, init) => {
    await new Promise((resolve) => setTimeout(resolve, 2));
    const sent = new URLSearchParams(String(init?.body)).get('refresh_token');
    const headers = { 'content-type': 'application/json' };
    if (sent !== `refresh-${generation}`) {
      counts.refused++;
      return new Response('{"error":"invalid_grant"}', { status: 400, headers });
    }
    counts.exchanges++;
    generation++;
    const tokens = {
      access_token: `access-${generation}`,
      refresh_token: `refresh-${generation}`,
      token_type: 'bearer',
      expires_in: 3600,
    };
    return new Response(JSON.stringify(tokens), { status: 200, headers });
  };
  return { counts, fetch };
}

const CREDENTIAL: Omit<Credential, 'exchangeUntil' | 'changedAt' | 'reason'> = {
  url: URL_OF_SERVER,
  authority: {
    metadata: { issuer: 'https://as.example', token_endpoint: 'https://as.example/token' },
    resource: URL_OF_SERVER,
    scopes: null,
  },
  client: { id: 'c', secret: null, privateKey: null, authMethod: 'none' },
  scopes: [],
  tokens: {
    access: 'access-0',
    scheme: 'Bearer',
    refresh: 'refresh-0',
    expiresAt: null,
    aheadMs: 0,
    scopes: [],
    key: null,
  },
};

test('fault:F20 a reading of the store that began before a login was forgotten does not bring it back', async () => {
  const records = new SharedRecords();
  const { fetch } = rotating();
  const [one, other] = [node(records, fetch), node(records, fetch)];
  const owner = { server: 'a', principal: null };
  await one.keep(owner, CREDENTIAL);
  await other.refresh();
  const { list } = records;
  const late = Promise.withResolvers<void>();
  records.list = async (...asked) => {
    const before = await list.apply(records, asked);
    await late.promise;
    return before;
  };
  const begun = other.refresh();
  records.list = list;
  await new Promise((resolve) => setTimeout(resolve, 20));
  await one.forget(owner);
  await other.refresh();
  assert.equal(other.tokens(SERVER), null);
  late.resolve();
  await begun;
  assert.equal(other.tokens(SERVER), null);
});

test('fault:F21 two nodes with 32 refused requests each, 50 times: one exchange each time, and no login is lost', async () => {
  const records = new SharedRecords();
  const { counts, fetch } = rotating();
  const nodes = [node(records, fetch), node(records, fetch)];
  await nodes[0]!.keep({ server: 'a', principal: null }, CREDENTIAL);
  await nodes[1]!.refresh();
  for (let round = 1; round <= 50; round++) {
    const before = ['Authorization', `Bearer access-${round - 1}`];
    const refusals = nodes.flatMap((credentials) =>
      Array.from({ length: 32 }, () =>
        new Leases(credentials).lease(SERVER)!.refused({ status: 401, challenge: 'Bearer', headers: before }),
      ),
    );
    assert.ok((await Promise.all(refusals)).every((again) => again));
    for (const credentials of nodes) {
      assert.deepEqual(new Leases(credentials).lease(SERVER)!.headers('POST', URL_OF_SERVER), [
        'Authorization',
        `Bearer access-${round}`,
      ]);
    }
  }
  assert.deepEqual(counts, { exchanges: 50, refused: 0 });
});

test('fault:F20 a refresh token that is void leaves a server that asks for a login, and is not tried again', async () => {
  const { counts, fetch } = rotating();
  const credentials = node(new SharedRecords(), fetch);
  const tokens = { ...CREDENTIAL.tokens!, refresh: 'void' };
  await credentials.keep({ server: 'a', principal: null }, { ...CREDENTIAL, tokens });
  const lease = new Leases(credentials).lease(SERVER)!;
  const refusal = { status: 401, challenge: 'Bearer', headers: ['Authorization', 'Bearer access-0'] };
  assert.equal(await lease.refused(refusal), false);
  assert.equal(lease.headers('POST', URL_OF_SERVER), null);
  assert.equal(await lease.refused({ ...refusal, headers: null }), false);
  assert.deepEqual(counts, { exchanges: 0, refused: 1 });
  assert.equal(credentials.list()[0]?.state, 'login_required');
  assert.doesNotMatch(JSON.stringify(credentials.list()), /access-0|void/);
});

async function until(condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < 1_000 && !condition(); turn++) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.ok(condition());
}

const REFUSED = { status: 401, challenge: 'Bearer', headers: ['Authorization', 'Bearer access-0'] };

test('fault:F21 a store that is away when the new token comes loses no login', async () => {
  const records = new SharedRecords();
  const { counts, fetch } = rotating();
  const credentials = node(records, async (url, init) => {
    records.failing = 3;
    return fetch(url, init);
  });
  await credentials.keep({ server: 'a', principal: null }, CREDENTIAL);
  assert.equal(await new Leases(credentials).lease(SERVER)!.refused(REFUSED), true);
  assert.deepEqual(counts, { exchanges: 1, refused: 0 });
  const other = node(records, fetch);
  await other.refresh();
  assert.equal(other.tokens(SERVER)?.refresh, 'refresh-1');
});

test('fault:F20 an authorization server that was away is retried at growing intervals; then the change is reported', async () => {
  const [clock, changes, records] = [new FakeClock(), [] as string[], new SharedRecords()];
  const { counts, fetch } = rotating();
  let asked = 0;
  const credentials = node(
    records,
    (url, init) => (++asked <= 2 ? Promise.reject(new TypeError('fetch failed')) : fetch(url, init)),
    clock,
    changes,
    new Map([['a', SERVER]]),
  );
  await credentials.refresh();
  await credentials.keep({ server: 'a', principal: null }, CREDENTIAL);
  changes.length = 0;
  assert.equal(await new Leases(credentials).lease(SERVER)!.refused(REFUSED), false);
  assert.equal(credentials.list()[0]?.state, 'failed');
  for (const [ms, times] of [
    [9_999, 1],
    [1, 2],
    [19_999, 2],
    [1, 3],
  ] as const) {
    await clock.advance(ms);
    await until(() => asked === times);
  }
  await until(() => changes.length > 0);
  assert.deepEqual([changes, counts], [['a'], { exchanges: 1, refused: 0 }]);
  assert.equal(credentials.list()[0]?.state, 'connected');
});

test('fault:F21 nodes whose server refuses all tokens do not restart it for renewals of each other, but for a login', async () => {
  const [clock, records] = [new FakeClock(), new SharedRecords()];
  const { counts, fetch } = rotating();
  const changes: readonly [string[], string[]] = [[], []];
  const [a, b] = [node(records, fetch, clock, changes[0]), node(records, fetch, clock, changes[1])];
  const refused = (credentials: typeof a, generation: number): Promise<boolean> => {
    const headers = ['Authorization', `Bearer access-${generation}`];
    return new Leases(credentials).lease(SERVER)!.refused({ ...REFUSED, headers });
  };
  const owner = { server: 'a', principal: null };
  await a.refresh();
  await b.refresh();
  await a.keep(owner, { ...CREDENTIAL, login: 'one' });
  await b.refresh();
  assert.deepEqual(changes, [['a'], ['a']]);
  // B has not renewed the tokens itself, so the renewal of A may help it.
  assert.equal(await refused(a, 0), true);
  await b.refresh();
  assert.deepEqual(changes, [['a'], ['a', 'a']]);
  for (const [at, [one, other]] of [
    [b, a],
    [a, b],
    [b, a],
  ].entries()) {
    assert.equal(await refused(one!, at + 1), true);
    await other!.refresh();
  }
  assert.deepEqual(changes, [['a'], ['a', 'a']]);
  assert.deepEqual(counts, { exchanges: 4, refused: 0 });
  // The server may have recovered since the last renewal of A.
  await clock.advance(600_000);
  assert.equal(await refused(b, 4), true);
  await a.refresh();
  assert.deepEqual(changes, [
    ['a', 'a'],
    ['a', 'a'],
  ]);
  await b.keep(owner, { ...CREDENTIAL, login: 'two' });
  await a.refresh();
  assert.deepEqual(changes, [
    ['a', 'a', 'a'],
    ['a', 'a', 'a'],
  ]);
});

test('a stored credential of an earlier version, which names no login, is used and renewed', async () => {
  const records = new SharedRecords();
  const { counts, fetch } = rotating();
  const value = JSON.stringify({ ...CREDENTIAL, exchangeUntil: null, reason: null, changedAt: 1 });
  await records.apply([{ kind: 'put', collection: 'credentials', key: 'a', value }]);
  const credentials = node(records, fetch);
  await credentials.refresh();
  assert.equal(await new Leases(credentials).lease(SERVER)!.refused(REFUSED), true);
  assert.equal(credentials.tokens(SERVER)?.access, 'access-1');
  assert.deepEqual(counts, { exchanges: 1, refused: 0 });
});

test('fault:F21 while the store is away, calls with a token that is still valid do not wait for it', async () => {
  const [clock, records] = [new FakeClock(), new SharedRecords()];
  const credentials = node(records, rotating().fetch, clock, [], new Map([['a', SERVER]]));
  const tokens = { ...CREDENTIAL.tokens!, expiresAt: clock.wall() + 30_000, aheadMs: 60_000 };
  await credentials.keep({ server: 'a', principal: null }, { ...CREDENTIAL, tokens });
  assert.equal(credentials.needsRenewal(SERVER), true);
  records.failing = 1_000;
  assert.equal(await credentials.renew(SERVER, credentials.tokens(SERVER)), false);
  assert.equal(credentials.needsRenewal(SERVER), false);
});

test('failed renewals are retried with the definition in force, and no longer once the server is removed', async () => {
  const [clock, servers] = [new FakeClock(), new Map([['a', SERVER]])];
  const clients: (string | null)[] = [];
  const away: GuardedFetch = async (_url, init) => {
    clients.push(new URLSearchParams(String(init?.body)).get('client_id'));
    throw new TypeError('fetch failed');
  };
  const credentials = node(new SharedRecords(), away, clock, [], servers);
  await credentials.keep({ server: 'a', principal: null }, CREDENTIAL);
  assert.equal(await new Leases(credentials).lease(SERVER)!.refused(REFUSED), false);
  servers.set('a', withAuth({ clientId: 'changed' }));
  await clock.advance(10_000);
  await until(() => clients.length === 2);
  servers.delete('a');
  await clock.advance(600_000);
  assert.deepEqual(clients, ['c', 'changed']);
});

test('the next token of a stored credential is requested with the client id and secret that the definition has now', async () => {
  const headers = { 'content-type': 'application/json' };
  const clients: (string | null)[] = [];
  const fetch: GuardedFetch = async (_url, init) => {
    const basic = new Headers(init?.headers).get('authorization')!;
    clients.push(Buffer.from(basic.replace('Basic ', ''), 'base64').toString());
    const tokens = { access_token: `access-${clients.length}`, refresh_token: 'refresh', token_type: 'bearer' };
    return new Response(JSON.stringify(tokens), { headers });
  };
  const credentials = node(new SharedRecords(), fetch);
  const client = { id: 'old', secret: 'before', privateKey: null, authMethod: null };
  await credentials.keep({ server: 'a', principal: null }, { ...CREDENTIAL, client });
  for (const [clientId, secret] of [
    ['old', 'rotated'],
    ['new', 'another'],
  ] as const) {
    const server = withAuth({ clientId, clientSecret: new Secret(secret) });
    assert.equal(await credentials.renew(server, credentials.tokens(server)), true);
  }
  assert.equal(await credentials.renew(SERVER, credentials.tokens(SERVER)), true);
  assert.deepEqual(clients, ['old:rotated', 'new:another', 'new:another']);
});

test('fault:F20 a request that left before its user had signed in is sent again with the token, without an exchange', async () => {
  const { counts, fetch } = rotating();
  const credentials = node(new SharedRecords(), fetch);
  const lease = new Leases(credentials).lease(SERVER)!;
  const refusal = { status: 401, challenge: 'Bearer', headers: null };
  assert.equal(await lease.refused(refusal), false);
  await credentials.keep({ server: 'a', principal: null }, CREDENTIAL);
  assert.equal(await lease.refused(refusal), true);
  assert.deepEqual(counts, { exchanges: 0, refused: 0 });
});
