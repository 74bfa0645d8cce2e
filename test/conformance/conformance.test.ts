import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ConformanceStage, startConformanceStage } from '../support/conformance-stage.ts';
import { checksOf, failing, runConformance, scored } from '../support/conformance-suite.ts';

/** Scenarios that the suite scores, by revision. */
const SCORED = { '2025-11-25': 30, '2026-07-28': 37 } as const;
/** Not scored, but passed by the server itself, so they have to pass through the gateway, too. */
const UNSCORED = {
  '2025-11-25': ['server-session-lifecycle', 'json-schema-2020-12', 'server-sse-polling'],
  '2026-07-28': ['json-schema-2020-12', 'http-header-validation', 'http-custom-header-server-validation'],
} as const;
/** Over stdio the server cannot break off a stream, and the scenario then has nothing to check. */
const HTTP_ONLY = ['server-sse-polling'];

for (const [era, revision] of [
  ['stateful', '2025-11-25'],
  ['stateless', '2026-07-28'],
] as const) {
  describe(`the official conformance suite at ${revision}, through the gateway`, () => {
    let stage: ConformanceStage;
    before(async () => {
      stage = await startConformanceStage(era, 'both');
    });
    after(() => stage.dispose());

    for (const wire of ['http', 'stdio'] as const) {
      test(`check:B13 check:D11 on /servers/{name}/mcp, with the server over ${wire}`, {
        timeout: 150_000,
      }, async () => {
        const result = await runConformance(stage.gateway.serverUrl(wire), revision);
        assert.deepEqual(failing(result), [], result.output.slice(-8000));
        assert.equal(scored(result), SCORED[revision]);
        const owed = UNSCORED[revision].filter((name) => wire === 'http' || !HTTP_ONLY.includes(name));
        assert.deepEqual(
          owed.filter((name) => result.scenarios.get(name) !== true),
          [],
        );
      });
    }
  });

  test(`the same on /mcp at ${revision}: all but the scenario that lists a tool by its bare name`, {
    timeout: 150_000,
  }, async () => {
    const stage = await startConformanceStage(era, 'http');
    try {
      const result = await runConformance(stage.gateway.mcpUrl, revision);
      assert.deepEqual(failing(result), [], result.output.slice(-8000));
      assert.equal(scored(result), SCORED[revision]);
      const owed = UNSCORED[revision].filter((name) => name !== 'json-schema-2020-12');
      assert.deepEqual(
        owed.filter((name) => result.scenarios.get(name) !== true),
        [],
      );
    } finally {
      await stage.dispose();
    }
  });
}

/** The server of the suite reports changed lists although they are the same as before. */
const TELLS_OF_LISTS = [
  'sep-2575-server-sends-tools-list-changed-on-subscription',
  'sep-2575-server-sends-prompts-list-changed-on-subscription',
];

for (const [endpoint, wires] of [
  ['/servers/{name}/mcp', 'both'],
  ['/mcp', 'http'],
] as const) {
  test(`check:B13 the suite reports that a server's own list_changed reaches a subscription on ${endpoint}`, {
    timeout: 150_000,
  }, async () => {
    const stage = await startConformanceStage('stateless', wires);
    const { gateway } = stage;
    try {
      for (const url of wires === 'both'
        ? ['http', 'stdio'].map((name) => gateway.serverUrl(name))
        : [gateway.mcpUrl]) {
        const { passed, failed, skipped } = await checksOf(url, 'server-stateless', '2026-07-28');
        assert.deepEqual(failed, [], url);
        const missing = TELLS_OF_LISTS.filter((id) => !passed.includes(id));
        assert.deepEqual(missing, [], `${url}: skipped ${skipped.join(', ')}`);
      }
    } finally {
      await stage.dispose();
    }
  });
}

describe('servers of both eras, as SDK 2 makes them, through one gateway', { concurrency: true }, () => {
  let stage: ConformanceStage;
  before(async () => {
    stage = await startConformanceStage('both', 'both');
  });
  after(() => stage.dispose());

  for (const wire of ['http', 'stdio'] as const) {
    for (const revision of ['2025-11-25', '2026-07-28'] as const) {
      test(`check:B13 check:D11 at ${revision}, with the server over ${wire}`, { timeout: 150_000 }, async () => {
        const result = await runConformance(stage.gateway.serverUrl(wire), revision);
        assert.deepEqual(failing(result), [], result.output.slice(-8000));
        assert.equal(scored(result), SCORED[revision]);
      });
    }
  }
});
