import assert from 'node:assert/strict';
import { test } from 'node:test';
import { credentialNode, SharedRecords } from '../../test/support/credential-node.ts';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { FetchFailed, type GuardedFetch } from '../http/client/guarded-fetch.ts';
import { PLAIN_AUTH } from '../model/credentials.ts';
import type { Server } from '../model/server.ts';
import { Leases } from './lease.ts';
import { OAuthLogins } from './logins.ts';
import { SignInTrace } from './sign-in-trace.ts';

const loginsOf = (node: ReturnType<typeof credentialNode>): OAuthLogins =>
  new OAuthLogins(node, new SignInTrace(node.deps.clock), () => {});

const ISSUER = 'https://as.example';
const TARGET = 'https://mcp.example/mcp';
const BACK = 'https://gateway.example/oauth/callback';
const SERVER = { name: 'web', transport: { type: 'http', url: TARGET, headers: {}, tls: {} } } as unknown as Server;

/**
 * A server and its authorization server, whose token endpoint answers as `token` says, and its registration endpoint with
 * what `register` returns.
 */
function world(token: () => Promise<Response>, register = (): object => ({ client_id: 'c' })): GuardedFetch {
  const json = (body: object) =>
    new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });
  return async (url) => {
    switch (String(url)) {
      case 'https://mcp.example/.well-known/oauth-protected-resource/mcp':
        return json({ resource: TARGET, authorization_servers: [ISSUER] });
      case `${ISSUER}/.well-known/oauth-authorization-server`:
        return json({
          issuer: ISSUER,
          authorization_endpoint: `${ISSUER}/authorize`,
          token_endpoint: `${ISSUER}/token`,
          registration_endpoint: `${ISSUER}/register`,
          device_authorization_endpoint: `${ISSUER}/device`,
          code_challenge_methods_supported: ['S256'],
          authorization_response_iss_parameter_supported: true,
        });
      case `${ISSUER}/register`:
        return new Response(JSON.stringify({ redirect_uris: [], ...register() }), {
          status: 201,
          headers: { 'content-type': 'application/json' },
        });
      case `${ISSUER}/device`:
        return json({ device_code: 'd', user_code: 'u', verification_uri: `${ISSUER}/enter`, expires_in: 600 });
      case `${ISSUER}/token`:
        return token();
      default:
        return new Response(null, { status: 404 });
    }
  };
}

const granted = async () =>
  new Response('{"access_token":"t","token_type":"bearer","expires_in":3600}', {
    headers: { 'content-type': 'application/json' },
  });

async function begun(fetch: GuardedFetch, browser: string | null = null) {
  const records = new SharedRecords();
  const logins = loginsOf(credentialNode(records, fetch));
  const { id, url } = await logins.begin(SERVER, BACK, null, browser);
  assert.match(url, /^https:\/\/as\.example\/authorize\?/);
  return { records, logins, id, back: backOf(id) };
}

/** The address that the browser comes back to. */
function backOf(id: string): string {
  return `${BACK}?state=${id}&code=x&iss=${encodeURIComponent(ISSUER)}`;
}

test('check:I3 a call that waits for a login also waits for its token request, however long that takes', async () => {
  let answer = (): void => {};
  const slow = () => new Promise<void>((resolve) => (answer = resolve)).then(granted);
  const { logins, id, back } = await begun(world(slow));
  const ended = logins.ended(id);
  const finished = logins.finish(back);
  // Longer than the polling interval.
  await new Promise((resolve) => setTimeout(resolve, 600));
  await assert.rejects(logins.finish(back), /no such login, or it has ended/, 'a code is sent once');
  answer();
  assert.equal((await finished).state, 'connected');
  assert.equal((await ended).state, 'connected');
  await assert.rejects(logins.finish(back), { code: 'AUTH_REQUIRED' });
});

test('check:I3 a node that waits for the end of a login finds it where another node has ended it', async () => {
  const { records, logins, id, back } = await begun(world(granted));
  const ended = loginsOf(credentialNode(records, world(granted))).ended(id);
  await logins.finish(back);
  assert.equal((await ended).state, 'connected');
});

test('a renewal of the credential does not end a login that is under way', async () => {
  let issued = 0;
  const token = async () => {
    const tokens = { access_token: `t${++issued}`, refresh_token: 'r', token_type: 'bearer', expires_in: 3600 };
    return new Response(JSON.stringify(tokens), { headers: { 'content-type': 'application/json' } });
  };
  const node = credentialNode(new SharedRecords(), world(token));
  const logins = loginsOf(node);
  const first = await logins.begin(SERVER, BACK, null);
  await logins.finish(backOf(first.id));
  const { id } = await logins.begin(SERVER, BACK, null);
  let waits = true;
  const ended = logins.ended(id).finally(() => {
    waits = false;
  });
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(await node.renew(SERVER, node.tokens(SERVER)), true);
  // Longer than one interval of its polls.
  await new Promise((resolve) => setTimeout(resolve, 600));
  assert.equal(waits, true);
  await logins.finish(backOf(id));
  assert.equal((await ended).state, 'connected');
  assert.equal(node.tokens(SERVER)?.access, 't3');
});

/** Logins at an authorization server that gives out client ids `c1`, `c2` and so on. */
function registering(token: () => Promise<Response>, more: object = {}, clock = new FakeClock()) {
  let registered = 0;
  const fetch = world(token, () => ({ client_id: `c${++registered}`, ...more }));
  const logins = loginsOf(credentialNode(new SharedRecords(), fetch, clock));
  const begin = async () => {
    const { id, url } = await logins.begin(SERVER, BACK, null);
    return { back: backOf(id), client: new URL(url).searchParams.get('client_id') };
  };
  return { clock, logins, begin };
}

function unknownClient(more: Readonly<Record<string, string>> = {}): Response {
  const headers = { 'content-type': 'application/json', ...more };
  return new Response('{"error":"invalid_client"}', { status: 401, headers });
}

test('the gateway registers again after its client was refused at the token endpoint, with or without a challenge', async () => {
  const answers = [unknownClient(), unknownClient({ 'www-authenticate': 'Basic realm="as"' })];
  const { logins, begin } = registering(async () => answers.shift() ?? granted());
  for (const [client, words] of [
    ['c1', /answers invalid_client; .*begin the login again/],
    ['c2', /refuses the gateway's client \(HTTP 401\); .*begin the login again/],
  ] as const) {
    const login = await begin();
    assert.equal(login.client, client);
    await assert.rejects(logins.finish(login.back), words);
  }
  const { back, client } = await begin();
  assert.equal(client, 'c3');
  assert.equal((await logins.finish(back)).state, 'connected');
  assert.equal((await begin()).client, 'c3');
});

test('the gateway registers again after its client was refused at the device authorization endpoint', async () => {
  let registered = 0;
  const answers = world(granted, () => ({ client_id: `c${++registered}` }));
  const known: GuardedFetch = async (url, init) =>
    String(url) === `${ISSUER}/device` && registered === 1 ? unknownClient() : answers(url, init);
  const logins = loginsOf(credentialNode(new SharedRecords(), known));
  await assert.rejects(logins.begin(SERVER, null, null), /invalid_client/);
  assert.equal((await logins.begin(SERVER, null, null)).userCode, 'u');
});

test('the gateway registers again after a login from which the browser did not come back in ten minutes', async () => {
  const { clock, begin } = registering(granted);
  assert.equal((await begin()).client, 'c1');
  assert.equal((await begin()).client, 'c1');
  await clock.advance(600_000);
  assert.equal((await begin()).client, 'c2');
});

test('the gateway registers again before the secret of its client expires; 0 is never', async () => {
  const at = new FakeClock().wall();
  for (const [end, later] of [
    [at / 1000 + 3_600, 'c2'],
    [0, 'c1'],
  ] as const) {
    const { clock, logins, begin } = registering(granted, { client_secret: 's', client_secret_expires_at: end });
    const first = await begin();
    await logins.finish(first.back);
    const second = await begin();
    assert.deepEqual([first.client, second.client], ['c1', 'c1']);
    await logins.finish(second.back);
    await clock.advance(3_000_000);
    assert.equal((await begin()).client, later);
  }
});

test('check:I3 while the store is away nothing is lost: the same address is good once it is back', async () => {
  const { records, logins, back } = await begun(world(granted));
  records.failing = 1;
  await assert.rejects(logins.finish(back), { code: 'NOT_SENT', message: /the store of the gateway does not answer/ });
  assert.equal((await logins.finish(back)).state, 'connected');
});

test('a node uses a token obtained while the store goes away, and stores it when the store is back', async () => {
  let failing = (): void => {};
  const { records, logins, back } = await begun(
    world(async () => {
      failing();
      return granted();
    }),
  );
  failing = () => {
    records.failing = 2;
  };
  assert.equal((await logins.finish(back)).state, 'connected');
  const other = credentialNode(records, world(granted));
  await other.refresh();
  assert.deepEqual(
    other.list().map(({ server, state }) => [server, state]),
    [['web', 'connected']],
  );
});

test('an authorization server that cannot be reached leaves the login open; one that refuses ends it', async () => {
  let answers: (() => Promise<Response>)[] = [
    () => Promise.reject(Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } })),
    granted,
  ];
  const { logins, back } = await begun(world(() => answers.shift()!()));
  await assert.rejects(logins.finish(back), { code: 'NOT_SENT' });
  assert.equal((await logins.finish(back)).state, 'connected');

  answers = [
    async () =>
      new Response('{"error":"invalid_grant"}', { status: 400, headers: { 'content-type': 'application/json' } }),
  ];
  const refused = await begun(world(() => answers.shift()!()));
  const ended = assert.rejects(refused.logins.ended(refused.id), /refused, or ten minutes are over/);
  await assert.rejects(refused.logins.finish(refused.back), /invalid_grant/);
  await ended;
});

test('a login with a code outlasts a poll without an answer, and the next poll comes later', async () => {
  const clock = new FakeClock();
  const polls: number[] = [];
  const token = () => {
    polls.push(clock.now());
    return polls.length === 1 ? Promise.reject(new FetchFailed('as.example did not answer in time')) : granted();
  };
  const logins = loginsOf(credentialNode(new SharedRecords(), world(token), clock));
  const { id } = await logins.begin(SERVER, null, null);
  let state = 'waiting';
  const ended = logins.ended(id).then((view) => {
    state = view.state;
  });
  for (let second = 0; second < 300 && state === 'waiting'; second++) {
    await clock.advance(1_000);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await ended;
  assert.deepEqual([state, polls.length], ['connected', 2]);
  assert.ok(polls[1]! - polls[0]! >= 10_000);
});

test('proto:D5 a login that a browser began can finish only in that browser', async () => {
  const { logins, back } = await begun(world(granted), 'secret');
  for (const other of [null, '', 'other']) await assert.rejects(logins.finish(back, other), /in another browser/);
  assert.equal((await logins.finish(back, 'secret')).state, 'connected');
});

test('a login for an unknown principal, or for a shared credential, is refused with the reason', async () => {
  const logins = loginsOf(credentialNode(new SharedRecords(), world(granted)));
  const auth = { ...PLAIN_AUTH, per: 'principal' } as const;
  const own = { ...SERVER, transport: { ...SERVER.transport, auth } } as unknown as Server;
  const refused = (server: Server, principal: string, message: RegExp) =>
    assert.rejects(logins.begin(server, BACK, principal), { code: 'INVALID_REQUEST', message });
  await refused(own, 'agent:eve', /the configuration has no agent eve$/);
  await refused(own, 'eve', /those of agents are written agent:<name>$/);
  await refused(SERVER, 'agent:eve', /all its callers share one credential/);
});

test('browsers can begin 16 logins of one credential, and do not use up those of another', async () => {
  const logins = loginsOf(credentialNode(new SharedRecords(), world(granted)));
  for (let count = 0; count < 16; count++) await logins.begin(SERVER, BACK, null, `browser ${count}`);
  await assert.rejects(logins.begin(SERVER, BACK, null, 'one more'), { code: 'OVERLOADED' });
  await logins.begin({ ...SERVER, name: 'other' }, BACK, null, 'one more');
  await logins.begin(SERVER, BACK, null);
});

test('proto:T9 a login at any node requests the scopes that refused calls lacked at another node', async () => {
  const records = new SharedRecords();
  const [a, b] = [credentialNode(records, world(granted)), credentialNode(records, world(granted))];
  const logins = [loginsOf(a), loginsOf(b)] as const;
  const { id } = await logins[0].begin(SERVER, BACK, null);
  await logins[0].finish(backOf(id));
  await b.refresh();
  const lease = new Leases(a).lease(SERVER)!;
  const headers = await lease.headers('POST', TARGET);
  for (const scope of ['write', 'admin']) {
    const challenge = `Bearer error="insufficient_scope", scope="${scope}"`;
    assert.equal(await lease.refused({ status: 403, challenge, headers }), false);
  }
  const { url } = await logins[1].begin(SERVER, BACK, null);
  assert.equal(new URL(url).searchParams.get('scope'), 'write admin');
});
