import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { survivors } from '../support/processes.ts';
import { ColdClient } from '../support/real-servers/cold-client.ts';
import { CLIENT_KINDS } from '../support/real-servers/first-lists.ts';
import { PUBLISHED } from '../support/real-servers/published.ts';
import { type Asked, RealServers } from '../support/real-servers/real-servers.ts';
import { RunningGateway } from '../support/running-gateway.ts';

/** Six of the sixteen servers of `npm run prove -- soak --goal real-servers`, three of each era. */
const SOME = ['everything', 'memory', 'calculator', 'time', 'fetch', 'context7'];
const SERVERS = PUBLISHED.filter(({ name }) => SOME.includes(name));
const CALLED = SERVERS.filter(({ name }) => ['memory', 'time'].includes(name));
const START_MS = 100_000;
const mark = randomUUID();

interface Status {
  readonly servers: readonly {
    readonly name: string;
    readonly restarts: number;
    readonly lastLaunchFailure: unknown;
  }[];
}

describe('servers from npm and PyPI with empty caches, and the first client of each kind', { timeout: 170_000 }, () => {
  let servers: RealServers;
  let gateway: RunningGateway;
  let asked: Asked;
  let starts: Readonly<Record<string, number>>;
  let cold: readonly ColdClient[];

  before(async () => {
    const prepared = await RealServers.prepare(SERVERS, mark);
    assert.ok(typeof prepared !== 'string', String(prepared));
    servers = prepared;
    gateway = await RunningGateway.start({ config: { mcpServers: servers.mcpServers }, env: servers.env });
    cold = (['stateful', 'stateless'] as const).map((era) => new ColdClient(gateway.mcpUrl, era));
    await Promise.all(cold.map((client) => client.start()));
    await gateway.readyWithin(START_MS);
    starts = servers.starts();
    asked = await servers.asked();
  });
  after(async () => {
    for (const client of cold ?? []) await client.stop();
    await gateway?.dispose();
    servers?.dispose();
    assert.deepEqual(await survivors(mark, 5_000), []);
  });

  // A server of both eras that is slow at first is started once more (decision 058).
  test('every server is started once for each era that its clients speak, or once more, and none fails', async () => {
    assert.deepEqual(asked.eras, Object.fromEntries(SERVERS.map(({ name, era }) => [name, era])));
    const tooMany = SERVERS.filter(({ name, era }) => starts[name]! > (era === 'stateful' ? 1 : 3));
    assert.deepEqual(tooMany, [], JSON.stringify(starts));
    const { servers: status } = await gateway.control<Status>('/api/v1/servers');
    for (const { name, restarts, lastLaunchFailure } of status)
      assert.deepEqual({ name, restarts, lastLaunchFailure }, { name, restarts: 0, lastLaunchFailure: null });
  });

  test('clients that came while the servers started are notified until they have listed all tools', () => {
    for (const client of cold) {
      const lacking = asked.tools.filter((tool) => !client.lists.at(-1)!.includes(tool));
      assert.deepEqual(lacking, [], `the ${client.era} client, which has listed ${client.lists.length} times`);
    }
  });

  for (const kind of CLIENT_KINDS) {
    test(`the first list of ${kind.name} has all tools, and its calls are answered`, async (context) => {
      if (!(await kind.prepare())) {
        context.skip(`${kind.name} could not be installed`);
        return;
      }
      const { problems, leftOut } = await kind.first(gateway.mcpUrl, CALLED, asked.tools);
      assert.deepEqual({ problems, leftOut }, { problems: [], leftOut: [] });
    });
  }
});
