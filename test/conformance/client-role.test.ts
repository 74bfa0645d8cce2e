import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { clientScenarios, runClientScenario } from '../support/conformance-suite.ts';

const CLIENT = resolve(import.meta.dirname, 'client-role.ts');

/** What each revision asks of clients beside OAuth. The scenarios of OAuth are the gateway's own affair, later. */
const SCENARIOS = {
  '2025-11-25': ['initialize', 'tools_call', 'elicitation-sep1034-client-defaults', 'sse-retry'],
  '2026-07-28': [
    'tools_call',
    'request-metadata',
    'sep-2322-client-request-state',
    'http-standard-headers',
    'http-custom-headers',
    'http-invalid-tool-headers',
    'json-schema-ref-no-deref',
  ],
} as const;
/** Not scored at every revision, but the gateway passes them. */
const UNSCORED = ['json-schema-2020-12-preservation'];
/**
 * Of 2026-07-28, but the suite's server takes `initialize` too. Such a server is spoken to in its client's era, so that
 * a stateful client gets no 2026-07-28 for the suite to look at.
 */
const OF_BOTH_ERAS = ['request-metadata', 'http-standard-headers', 'http-invalid-tool-headers'];

for (const revision of ['2025-11-25', '2026-07-28'] as const) {
  test(`these are all the scenarios of ${revision} but those of OAuth`, async () => {
    const all = await clientScenarios(revision);
    const others = all.filter((name) => !name.startsWith('auth/'));
    assert.deepEqual(others.sort(), [...SCENARIOS[revision]].sort());
  });

  // The client before the gateway is also one of the other era: it can have no part in what the suite's server sees.
  for (const era of ['stateful', 'stateless'] as const) {
    describe(`the official suite at ${revision} in client role: the gateway as client, a ${era} client before it`, {
      concurrency: 2,
    }, () => {
      const all: readonly string[] = [...SCENARIOS[revision], ...UNSCORED];
      for (const scenario of era === 'stateful' ? all.filter((name) => !OF_BOTH_ERAS.includes(name)) : all) {
        test(`check:B8 proto:H6 ${scenario}`, { timeout: 60_000 }, async () => {
          const { passed, output } = await runClientScenario(
            scenario,
            revision,
            `${process.execPath} ${CLIENT} ${era}`,
          );
          assert.ok(passed, output.slice(-4000));
        });
      }
    });
  }
}
