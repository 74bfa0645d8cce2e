import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { PersonalServer } from '../fixtures/oauth/personal-server.ts';
import { ClusterProcesses, until } from '../support/cluster-processes.ts';
import { AGENTS, headersOf, type Party, partyOf, randomOf, USERS, type User } from '../support/parties.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const STEPS = 800;
/** At one gateway; at two nodes that both have the servers; at a node that has neither of them. */
const PLACES = ['one gateway', 'two nodes', 'another node'] as const;
type By = 'token' | 'header';

interface Scene {
  readonly old: PersonalServer;
  readonly modern: PersonalServer;
  /** Where clients connect. */
  readonly gateways: readonly RunningGateway[];
}

async function scene(t: TestContext, by: By, place: (typeof PLACES)[number]): Promise<Scene> {
  const old = await PersonalServer.start({ era: 'stateful', by });
  const modern = await PersonalServer.start({ era: 'stateless', by });
  t.after(() => Promise.all([old.stop(), modern.stop()]));
  const more = by === 'token' ? { auth: { per: 'principal' } } : { forwardHeaders: { 'X-Team': 'X-Tenant' } };
  const mcpServers = Object.fromEntries(
    Object.entries({ old, modern }).map(([name, { url }]) => [name, { type: 'http', url, ...more }]),
  );
  if (place === 'one gateway') {
    const gateway = await RunningGateway.start({ config: { mcpServers, agents: AGENTS } });
    t.after(() => gateway.dispose());
    if (by === 'token') await loginAll(gateway, { old, modern });
    return { old, modern, gateways: [gateway] };
  }
  const nodes = await ClusterProcesses.start();
  t.after(() => nodes.dispose());
  const a = await nodes.node('a', mcpServers, { agents: AGENTS });
  const b = await nodes.node('b', place === 'two nodes' ? mcpServers : {}, { agents: AGENTS });
  // Without a shared database each node keeps its own credentials.
  for (const { gateway } of place === 'two nodes' ? [a, b] : [a])
    if (by === 'token') await loginAll(gateway, { old, modern });
  const known = async (): Promise<boolean> =>
    (await b.control<{ servers: Json[] }>('/api/v1/servers')).servers.length === 2;
  await until(known, 'b to know the servers');
  return { old, modern, gateways: place === 'two nodes' ? [a.gateway, b.gateway] : [b.gateway] };
}

async function loginAll(gateway: RunningGateway, servers: Record<string, PersonalServer>): Promise<void> {
  for (const [name, server] of Object.entries(servers)) {
    for (const user of USERS) {
      const body = { redirectUri: 'http://127.0.0.1:9/back', principal: `agent:${user}` };
      const started = await gateway.control<Json>(`/api/v1/servers/${name}/login`, 'POST', JSON.stringify(body));
      const url = await server.authorize(started.url, user);
      await gateway.control('/api/v1/login-redirects', 'POST', JSON.stringify({ url }));
    }
  }
}

function other(user: User): User {
  return user === 'ada' ? 'bob' : 'ada';
}

for (const by of ['token', 'header'] as const) {
  for (const place of PLACES) {
    const how = by === 'token' ? 'credentials of their own' : 'forwarded headers';
    test(`goal:G18 proto:T3 two callers with ${how} never get each other's data (${place})`, {
      timeout: 120_000,
    }, async (t) => {
      const seed = Number(process.env['TRUNKLINE_SEED'] ?? 20_261_126);
      const random = randomOf(seed);
      const { old, modern, gateways } = await scene(t, by, place);
      const aggregates = new Set(gateways.map(({ mcpUrl }) => mcpUrl));
      const parties: Party[] = [];
      for (const gateway of gateways) {
        for (const url of [gateway.mcpUrl, gateway.serverUrl('old'), gateway.serverUrl('modern')]) {
          for (const user of USERS) {
            for (const era of ['stateful', 'stateless'] as const) {
              parties.push(await partyOf(user, new WireClient(url, era, { headers: headersOf(user, by) })));
            }
          }
        }
      }
      const one = <T>(of: readonly T[]): T => of[random(of.length)]!;
      const send = async (who: Party, method: string, params: Json): Promise<void> => {
        const { client, received, user } = who;
        const { message, before } = await client.request(method, params);
        received.push(...[...before, message].map((each) => JSON.stringify(each)));
        // The server forgets sessions all the time: the client repeats a request that it has refused twice.
        if (message.error?.data?.retryable === true) return send(who, method, params);
        assert.equal(message.error, undefined, `${method} ${JSON.stringify(params)} of ${user} at ${client.url}`);
        assert.match(JSON.stringify(message.result), new RegExp(`private-to-${user}`));
      };
      const step = (): Promise<void> => {
        const who = one(parties);
        const { client, user } = who;
        const all = aggregates.has(client.url);
        const at = all ? one(['old', 'modern']) : '';
        const name = (own: string): string => (all ? `${at}__${own}` : own);
        const uri = (own: string): string => (all ? `trunkline://${at}/${own}` : own);
        const args = { caller: user };
        switch (random(9)) {
          case 0:
            return send(who, 'tools/list', {});
          case 1:
            return send(who, 'resources/list', {});
          case 2:
            return send(who, 'prompts/list', {});
          case 3:
            return send(who, 'tools/call', { name: name(`only_${user}`), arguments: args });
          case 4:
            return send(who, 'resources/read', { uri: uri('test://mine') });
          case 5:
            return send(who, 'resources/read', { uri: uri(`test://${user}`) });
          case 6:
            for (const server of [old, modern]) server.change(one(USERS));
            if (random(8) === 0) old.forgetSessions();
            return Promise.resolve();
          case 7:
            return send(who, 'prompts/get', { name: name('mine') });
          default:
            return send(who, 'tools/call', { name: name('echo'), arguments: args });
        }
      };
      for (const { client } of parties) await client.request('tools/list', {});
      for (let i = 0; i < STEPS; i += 8) await Promise.all(Array.from({ length: 8 }, step));

      assert.deepEqual([...old.confused, ...modern.confused], [], `seed ${seed}`);
      for (const { user, received, client } of parties) {
        const theirs = new RegExp(`private-to-${other(user)}|only_${other(user)}`);
        assert.deepEqual(
          received.filter((text) => theirs.test(text)),
          [],
          `seed ${seed}: ${client.url} ${client.era} of ${user}`,
        );
      }
    });
  }
}

test('check:I1 a change for one caller notifies that caller alone', { timeout: 60_000 }, async (t) => {
  const { old, modern, gateways } = await scene(t, 'token', 'one gateway');
  const changed = ({ received }: Party): number => received.filter((text) => /tools\/list_changed/.test(text)).length;
  for (const [name, server] of Object.entries({ old, modern })) {
    const parties = await Promise.all(
      USERS.flatMap((user) =>
        (['stateful', 'stateless'] as const).map(async (era) => {
          const client = new WireClient(gateways[0]!.serverUrl(name), era, { headers: headersOf(user, 'token') });
          const party = await partyOf(user, client);
          await client.callText('echo', { caller: user });
          await client.toolNames();
          return party;
        }),
      ),
    );
    await until(() => server.streams('ada') > 0 && server.streams('bob') > 0, `streams at ${name}`);
    // The notifications after the first lists of a caller have arrived by now.
    await new Promise((done) => setTimeout(done, 500));
    const before = parties.map(changed);
    server.change('ada');
    const more = (): number[] => parties.map((party, i) => changed(party) - before[i]!);
    await until(() => parties.every(({ user }, i) => user === 'bob' || more()[i]! > 0), `notifications of ${name}`);
    const ofBob = more().filter((_, i) => parties[i]!.user === 'bob');
    assert.deepEqual(ofBob, [0, 0], name);
  }
});
