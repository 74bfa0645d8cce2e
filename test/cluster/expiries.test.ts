import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuUs } from '../../bench/load/process-usage.ts';
import { FULL, measured } from '../faults/measured.ts';
import { until } from '../support/cluster-processes.ts';
import { SignedInNodes } from '../support/signed-in-nodes.ts';
import { WireClient } from '../support/wire-client.ts';

/** Each has its own server. */
const EXPIRIES = FULL ? 200 : 40;
/** The time of one exchange: with a slow authorization server all exchanges overlap. */
const EXCHANGE_MS = 2_000;
/** Long enough for the calls of one round, on a slow machine. */
const SECONDS = 12;

test('fault:F20 fault:F21 tokens of many servers expire at once on three nodes: one exchange each, no failed call, no lost login', {
  timeout: 170_000,
}, async (t) => {
  const servers = Array.from({ length: EXPIRIES }, (_, at) => `s${at}`);
  const nodes = await SignedInNodes.start(servers);
  const { issuer, cluster } = nodes;
  try {
    const clients = await Promise.all(cluster.nodes.map(({ mcpUrl }) => WireClient.open(mcpUrl)));
    const pids = cluster.nodes.map(({ gateway }) => gateway.process.pid!);
    const callAll = async (what: string, expected: number): Promise<void> => {
      const before = issuer.exchanged.length;
      const begun = performance.now();
      const cpu = cpuUs(pids);
      const calls = clients.flatMap((client, node) =>
        servers.map(async (server) => {
          const text = `${server} of ${node}`;
          assert.equal(await client.callText(`${server}__echo`, { text }), text);
        }),
      );
      const failed = (await Promise.allSettled(calls)).filter((one) => one.status === 'rejected');
      assert.deepEqual(failed.slice(0, 3), [], `${failed.length} calls failed`);
      const spent = cpuUs(pids) - cpu;
      assert.deepEqual(issuer.reused, []);
      measured(t, 'F21', `${what}: time of all calls`, Math.round(performance.now() - begun), 'ms');
      measured(t, 'F21', `${what}: CPU of three nodes`, spent / 1000, 'ms');
      measured(t, 'F21', `${what}: exchanges beyond one a token`, issuer.exchanged.length - before - expected, '', 0);
      const once = expected === 0 ? [] : [...servers].sort();
      assert.deepEqual(issuer.exchanged.slice(before).sort(), once);
    };
    issuer.exchangeMs = EXCHANGE_MS;
    await callAll('good tokens', 0);

    // The nodes detect the revocation by the answers of the servers.
    issuer.tokenSeconds = SECONDS;
    issuer.expire();
    await callAll('revoked tokens', EXPIRIES);

    // The nodes know the expiry themselves: the lifetime that the issuer gave has passed.
    issuer.tokenSeconds = 3_600;
    const over = performance.now() + SECONDS * 1_000;
    await until(() => performance.now() > over, 'the tokens to end');
    issuer.expire();
    await callAll('ended tokens', EXPIRIES);
    for (const { gateway } of cluster.nodes) {
      const { credentials } = await gateway.control<{ credentials: { state: string }[] }>('/api/v1/credentials');
      assert.deepEqual(new Set(credentials.map(({ state }) => state)), new Set(['connected']));
    }
  } finally {
    await nodes.dispose();
  }
});
