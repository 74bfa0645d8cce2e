import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agent } from '../../test/support/gateway-bench.ts';
import { RouteTable } from '../http/listener/route-table.ts';
import { ANONYMOUS, OPERATOR, type Principal } from '../model/client-profile.ts';
import type { Logins } from '../model/credential-ports.ts';
import { PLAIN_AUTH } from '../model/credentials.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { systemRandom } from '../model/random.ts';
import type { Server } from '../model/server.ts';
import { KeyAuthenticator } from './identity/auth.ts';
import { LoginPages } from './login-pages.ts';

const ORIGIN = 'http://127.0.0.1:4000';
const ADA = agent('ada', 'own', 'shared');

function server(name: string, per: 'server' | 'principal', more: Partial<Server> = {}): [string, Server] {
  const transport = {
    type: 'http',
    url: 'https://mcp.example/mcp',
    headers: {},
    tls: {},
    auth: { ...PLAIN_AUTH, per },
  };
  return [name, { name, enabled: true, transport, ...more } as unknown as Server];
}

const SERVERS = new Map([
  server('own', 'principal'),
  server('shared', 'server'),
  server('off', 'server', { enabled: false }),
]);

/** The page for the user of the caller, for each server for which the caller is asked to open one. */
async function pages(
  principal: Principal,
  agents: readonly string[],
  listen: object = {},
  openListener: (() => Promise<string | null>) | null = null,
) {
  const state = {
    servers: SERVERS,
    agents: new Map(agents.map((name) => [name, { name, key: { reveal: () => `key of ${name}` }, servers: null }])),
    listen: { host: '127.0.0.1', publicUrl: null, ...listen },
    unknownCallers: 'allow',
  } as unknown as DesiredState;
  const made = new LoginPages({
    logins: {} as Logins,
    credentials: { connectedAt: () => null },
    authenticator: new KeyAuthenticator(state),
    random: systemRandom,
    state: () => state,
    openListener,
  });
  made.register(new RouteTable());
  made.onListening(ORIGIN);
  const found: [string, string | null][] = [];
  for (const name of [...SERVERS.keys(), 'nosuch']) found.push([name, await made.page(name, principal)]);
  return Object.fromEntries(found.filter(([, page]) => page !== null));
}

const OWN = { own: `${ORIGIN}/oauth/login/own` };
const BOTH = { ...OWN, shared: `${ORIGIN}/oauth/login/shared` };

test('proto:D5 a caller is asked only if the page can tell that its own user opens it', async () => {
  assert.deepEqual(await pages(ADA, ['ada']), OWN);
  assert.deepEqual(await pages(agent('eve', 'shared'), ['ada', 'eve']), {}, 'own is not for eve');
  assert.deepEqual(await pages(ADA, ['eve']), {}, 'an agent of a program, without a key');
  assert.deepEqual(await pages(OPERATOR, []), {}, 'a program without an agent');
  assert.deepEqual(await pages(ANONYMOUS, []), BOTH);
  assert.deepEqual(await pages(ANONYMOUS, ['ada']), OWN, 'a login for itself, not for agents');
  assert.deepEqual(await pages(ANONYMOUS, [], { host: '0.0.0.0' }), {});
  assert.deepEqual(await pages(ANONYMOUS, [], { publicUrl: 'https://gateway.example' }), {});
});

test('proto:D5 on pipes the caller is asked regardless of the agents, but not if no page can be opened', async () => {
  const asked = await pages(ANONYMOUS, ['ada'], {}, async () => 'http://127.0.0.1:5000');
  assert.deepEqual(Object.keys(asked), ['own', 'shared']);
  for (const page of Object.values(asked))
    assert.match(page!, /^http:\/\/127\.0\.0\.1:5000\/oauth\/login\/\w+\?[0-9a-f]{32}$/);
  assert.deepEqual(await pages(ANONYMOUS, [], {}, async () => null), {});
});
