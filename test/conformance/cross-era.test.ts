import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ConformanceStage, startConformanceStage } from '../support/conformance-stage.ts';
import { checksOf, failing, runConformance, scored } from '../support/conformance-suite.ts';

/** Checks of the suite of 2026-07-28 that no server of the other era can pass, and why the gateway cannot fix them. */
const MISSES = {
  /** Expects its question under the key `user_name`. A stateful server's request has no key; the gateway makes one up. */
  'input-required-result-basic-elicitation': ['sep-2322-elicitation-incomplete'],
  /**
   * Expects -32021 for a tool that requires an undeclared capability. A stateful server that sends its request anyway
   * receives -32601, and may have another way; it chooses the final answer itself (here a result that says so).
   */
  'server-stateless': ['sep-2575-server-rejects-undeclared-capability', 'sep-2575-missing-capability-http-400'],
} as const;

for (const { era, suite, total, misses } of [
  { era: 'stateless', suite: '2025-11-25', total: 30, misses: [] },
  { era: 'stateful', suite: '2026-07-28', total: 37, misses: Object.keys(MISSES).sort() },
] as const) {
  describe(`the official suite at ${suite} in front of a server that is ${era} only`, () => {
    let stage: ConformanceStage;
    before(async () => {
      stage = await startConformanceStage(era, 'both');
    });
    after(() => stage.dispose());

    for (const wire of ['http', 'stdio'] as const) {
      test(`check:B8 check:D4 ${total - misses.length} of ${total}, with the server over ${wire}`, {
        timeout: 150_000,
      }, async () => {
        const result = await runConformance(stage.gateway.serverUrl(wire), suite);
        assert.equal(scored(result), total);
        assert.deepEqual(failing(result).sort(), misses, result.output.slice(-8000));
      });
    }

    for (const scenario of misses as readonly (keyof typeof MISSES)[]) {
      test(`${scenario}: only the checks that no such server can pass fail`, { timeout: 60_000 }, async () => {
        const { failed } = await checksOf(stage.gateway.serverUrl('http'), scenario, suite);
        assert.deepEqual(failed, MISSES[scenario]);
      });
    }
  });

  test(`check:B8 the same on /mcp: the suite at ${suite} in front of a server that is ${era} only`, {
    timeout: 150_000,
  }, async () => {
    const stage = await startConformanceStage(era, 'http');
    try {
      const result = await runConformance(stage.gateway.mcpUrl, suite);
      assert.equal(scored(result), total);
      assert.deepEqual(failing(result).sort(), misses, result.output.slice(-8000));
    } finally {
      await stage.dispose();
    }
  });
}
