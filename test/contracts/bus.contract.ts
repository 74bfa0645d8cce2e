import { describe, test } from 'node:test';
import type { BusHarness, Scenario } from './bus-bench.ts';
import { callContract } from './bus-call.contract.ts';
import { flowContract } from './bus-flow.contract.ts';
import { trustContract } from './bus-trust.contract.ts';

export { type BusBench, type BusHarness, SECRET } from './bus-bench.ts';

/** What every `Bus` guarantees, on any transport (S0.21). */
export function busContract(harness: BusHarness): void {
  describe(`bus contract: ${harness.name}`, () => {
    const scenario = scenarios(harness);
    callContract(scenario);
    flowContract(scenario);
    trustContract(scenario);
  });
}

/** Tests with two peers on a fresh bench each. */
function scenarios(harness: BusHarness): Scenario {
  return (title, run) => {
    test(`S0.21 check:H3 [${harness.name}] ${title}`, { timeout: 60_000 }, async () => {
      const bench = await harness.start();
      try {
        await run(bench, await bench.join(), await bench.join());
      } finally {
        await bench.dispose();
      }
    });
  };
}
