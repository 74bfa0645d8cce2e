import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startConformanceServer } from '../fixtures/conformance/http.ts';
import { type ConformanceStage, startConformanceStage } from '../support/conformance-stage.ts';
import { checksOf } from '../support/conformance-suite.ts';

/** How many checks of each scenario pass in the pinned suite. */
const SCENARIOS = {
  'sep-2640-skills-enumeration': { '2025-11-25': 30, '2026-07-28': 32 },
  'sep-2640-skills-directory': { '2025-11-25': 7, '2026-07-28': 7 },
  'sep-2640-skills-manifest': { '2025-11-25': 6, '2026-07-28': 6 },
} as const;
const ERAS = [
  ['stateful', '2025-11-25'],
  ['stateless', '2026-07-28'],
] as const;

async function assertPasses(url: string, revision: '2025-11-25' | '2026-07-28', warned = 0): Promise<void> {
  for (const [scenario, counts] of Object.entries(SCENARIOS)) {
    const { passed, failed } = await checksOf(url, scenario, revision);
    assert.deepEqual(failed, [], scenario);
    const missing = scenario === 'sep-2640-skills-enumeration' ? warned : 0;
    assert.equal(passed.length, counts[revision] - missing, scenario);
  }
}

for (const [era, revision] of ERAS) {
  test(`the suite’s skills scenarios pass at ${revision} without a gateway`, { timeout: 60_000 }, async () => {
    const server = await startConformanceServer(era);
    try {
      await assertPasses(server.url, revision);
    } finally {
      await server.close();
    }
  });
}

for (const [era] of ERAS) {
  describe(`the suite’s skills scenarios, with ${era} servers behind the gateway`, () => {
    let stage: ConformanceStage;
    before(async () => {
      stage = await startConformanceStage(era, 'both');
    });
    after(() => stage.dispose());

    for (const [, revision] of ERAS) {
      test(`check:D5 check:D11 on /servers/{name}/mcp at ${revision}`, { timeout: 60_000 }, async () => {
        await assertPasses(stage.gateway.serverUrl('stdio'), revision);
      });

      // Two servers with the same skills: their addresses distinguish them, and the suite warns about their names.
      test(`check:D5 on /mcp at ${revision}, with two servers of the same skills`, { timeout: 60_000 }, async () => {
        await assertPasses(stage.gateway.mcpUrl, revision, 1);
      });
    }
  });
}
