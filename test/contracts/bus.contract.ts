import { describe } from 'node:test';
import { type BusHarness, scenarios } from './bus-bench.ts';
import { callContract } from './bus-call.contract.ts';
import { flowContract } from './bus-flow.contract.ts';
import { trustContract } from './bus-trust.contract.ts';

export { type BusBench, type BusHarness, SECRET } from './bus-bench.ts';

/** What every `Bus` promises, whatever it stands on (S0.21). */
export function busContract(harness: BusHarness): void {
  describe(`bus contract: ${harness.name}`, () => {
    const scenario = scenarios(harness);
    callContract(scenario);
    flowContract(scenario);
    trustContract(scenario);
  });
}
