import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { ServerStatus } from '../../src/model/server-state.ts';
import { survivors } from '../support/processes.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { closedRun, killedRun, markedServers } from '../support/short-runs.ts';

const LIMIT = 3;

/** `npm run prove -- soak --goal runs` does the same two hundred times with the default limits. */
test('S1.7 S1.8 S1.16 short runs of agents on four servers from npm, three times the process limit: none is refused, nothing is left', async () => {
  const mark = randomUUID();
  const gateway = await RunningGateway.start({
    config: { mcpServers: markedServers(mark, { limits: { maxProcesses: LIMIT } }) },
  });
  try {
    await gateway.ready();
    const problems: string[] = [];
    for (let run = 0; run < 3 * LIMIT; run++) {
      const { problems: its } = await (run % 3 === 2 ? killedRun : closedRun)(gateway.mcpUrl);
      problems.push(...its);
    }
    assert.deepEqual(problems, []);
    const { servers } = await gateway.control<{ servers: ServerStatus[] }>('/api/v1/servers');
    for (const { name, processes } of servers)
      assert.deepEqual([name, processes], [name, { running: LIMIT, limit: LIMIT }]);
  } finally {
    await gateway.dispose();
  }
  assert.deepEqual(await survivors(mark, 5_000), []);
});
