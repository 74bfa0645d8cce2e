import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterBench, serverNamed, TestExchange } from '../../test/support/cluster-bench.ts';

test('fault:F42 a call from another node begins once, also if a defect occurs after it began', async () => {
  const nodes = new ClusterBench();
  try {
    const servers = [serverNamed('web', { isolation: 'session' })];
    const a = await nodes.join('a', []);
    const instances = [await nodes.join('b', servers), await nodes.join('c', servers)];
    let begun = 0;
    for (const { local } of instances) {
      const call = local.call.bind(local);
      local.call = (server, message, exchange) => {
        if (++begun === 1) throw new TypeError('a defect, after the request was written');
        return call(server, message, exchange);
      };
    }
    const exchange = new TestExchange();
    const outcome = await nodes.until(a.cluster.upstreams.call('web', exchange.request, exchange));
    assert.equal(begun, 1);
    assert.equal(outcome.kind === 'failure' && outcome.error.code, 'INTERNAL');
  } finally {
    await nodes.dispose();
  }
});
