import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { clientScenarios, runClientScenario } from '../support/conformance-suite.ts';

const CLIENT = resolve(import.meta.dirname, 'client-role.ts');

/** The scenarios of each revision for clients, except those of OAuth. */
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
/** Scenarios in which a client of the era gives the suite nothing to check, and why. */
const NOT_BEFORE = {
  // The suite's server accepts `initialize` too; the gateway then uses the client's era, so the suite sees no 2026-07-28.
  stateful: ['request-metadata', 'http-standard-headers', 'http-invalid-tool-headers'],
  // The suite's server asks on its GET stream, outside of any call: 2026-07-28 has no way to pass that on.
  stateless: ['elicitation-sep1034-client-defaults'],
} as const;

for (const revision of ['2025-11-25', '2026-07-28'] as const) {
  test(`these are all the scenarios of ${revision} but those of OAuth`, async () => {
    const all = await clientScenarios(revision);
    const others = all.filter((name) => !name.startsWith('auth/'));
    assert.deepEqual(others.sort(), [...SCENARIOS[revision]].sort());
  });

  const own = revision === '2025-11-25' ? 'stateful' : 'stateless';
  // The client before the gateway is also one of the other era: it must not change what the suite's server sees.
  for (const era of ['stateful', 'stateless'] as const) {
    describe(`the official suite at ${revision} in client role: the gateway as client, a ${era} client before it`, {
      concurrency: 2,
    }, () => {
      const all = [...SCENARIOS[revision], ...UNSCORED];
      const away: readonly string[] = own === era ? [] : NOT_BEFORE[era];
      for (const scenario of all.filter((name) => !away.includes(name))) {
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

/** Scenarios of extensions: tokens without a user, and tokens bound to a key. */
const OAUTH_EXTENSIONS = [
  'auth/client-credentials-jwt',
  'auth/client-credentials-basic',
  'auth/enterprise-managed-authorization',
  'auth/dpop',
  'auth/dpop-nonce',
  'auth/wif-jwt-bearer',
];

for (const [revision, count] of [
  ['2025-11-25', 14],
  ['2026-07-28', 25],
] as const) {
  test(`check:I1 check:I3 proto:T6 proto:T7 proto:T8 proto:T9 all ${count} scenarios of OAuth at ${revision}: the gateway as client`, {
    timeout: 180_000,
  }, async () => {
    const scenarios = (await clientScenarios(revision)).filter((name) => name.startsWith('auth/'));
    assert.equal(scenarios.length, count);
    await pass(scenarios, revision);
  });
}

test('check:I3 check:I4 the scenarios of OAuth extensions that concern a client', { timeout: 120_000 }, () =>
  pass(OAUTH_EXTENSIONS, null),
);

/** Three at a time: each waits for processes most of the time. */
async function pass(scenarios: readonly string[], revision: '2025-11-25' | '2026-07-28' | null): Promise<void> {
  const left = [...scenarios];
  const failed: string[] = [];
  const worker = async (): Promise<void> => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const { passed, output } = await runClientScenario(name, revision, `${process.execPath} ${CLIENT} stateful`);
      if (!passed) failed.push(`${name}\n${output.slice(-3000)}`);
    }
  };
  await Promise.all([worker(), worker(), worker()]);
  assert.deepEqual(failed, []);
}
