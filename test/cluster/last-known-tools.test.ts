import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PersonalServer } from '../fixtures/oauth/personal-server.ts';
import { ClusterProcesses, type NodeProcess, until } from '../support/cluster-processes.ts';
import { AGENTS, headersOf, USERS, type User } from '../support/parties.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import type { Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

/** Bob signs in to `shared` for all; only Ada signs in to `own`, for herself. */
const LISTED: Record<User, readonly string[]> = {
  ada: ['own__echo', 'own__only_ada', 'shared__echo', 'shared__only_bob'],
  bob: ['own__trunkline_login', 'shared__echo', 'shared__only_bob'],
};
const ERAS = ['stateful', 'stateless'] as const;

test('S3.5 goal:G18 each principal’s last known tools stay listed without a login, also at nodes that start later', {
  timeout: 120_000,
}, async (t) => {
  const [server, database, cluster] = await Promise.all([
    PersonalServer.start({ era: 'stateful', by: 'token' }),
    PostgresServer.start(),
    ClusterProcesses.start(),
  ]);
  t.after(async () => {
    await cluster.dispose();
    await server.stop();
    await database[Symbol.asyncDispose]();
  });
  const mcpServers = {
    own: { type: 'http', url: server.url, auth: { per: 'principal' } },
    shared: { type: 'http', url: server.url },
  };
  const more = { agents: AGENTS, cluster: { store: database.url } };
  const a = await cluster.node('a', mcpServers, more);
  const signIn = async (name: string, user: User, principal?: string): Promise<void> => {
    const body = JSON.stringify({ redirectUri: 'http://127.0.0.1:9/back', principal });
    const started = await a.gateway.control<Json>(`/api/v1/servers/${name}/login`, 'POST', body);
    const url = await server.authorize(started.url, user);
    await a.gateway.control('/api/v1/login-redirects', 'POST', JSON.stringify({ url }));
  };
  await signIn('own', 'ada', 'agent:ada');
  await signIn('shared', 'bob');
  const listed = async ({ mcpUrl }: NodeProcess, user: User, era: (typeof ERAS)[number]): Promise<string> => {
    const client = new WireClient(mcpUrl, era, { headers: headersOf(user, 'token') });
    if (era === 'stateful') await client.initialize();
    return (await client.toolNames()).join();
  };
  const show = async (node: NodeProcess, when: string): Promise<void> => {
    for (const user of USERS)
      for (const era of ERAS)
        assert.equal(await listed(node, user, era), LISTED[user].join(), `${node.name} to ${user}, ${era}, ${when}`);
  };
  await until(async () => (await listed(a, 'ada', 'stateless')) === LISTED.ada.join(), 'the servers');
  await show(a, 'with logins');
  await a.control('/api/v1/servers/own/login?principal=agent%3Aada', 'DELETE');
  await a.control('/api/v1/servers/shared/login', 'DELETE');
  await show(a, 'without logins');

  const b = await cluster.node('b', mcpServers, more);
  const c = await cluster.node('c', mcpServers, more);
  for (const node of [b, c]) await show(node, 'at a new node');
  const { folder } = a.gateway;
  await a.gateway.stop();
  for (const node of [b, c]) await show(node, 'while the node that knows them is away');
  const again = await cluster.node('a', mcpServers, more, { folder });
  for (const node of [again, b, c]) await show(node, 'after a restart');
  for (const name of ['own__only_ada', 'shared__echo']) {
    const client = new WireClient(b.mcpUrl, 'stateless', { headers: headersOf('ada', 'token') });
    const { message } = await client.request('tools/call', { name, arguments: {} });
    assert.match(JSON.stringify(message), /sign in: trunkline login (?:own --principal agent:ada|shared)/);
  }
  assert.deepEqual(server.confused, []);
});
