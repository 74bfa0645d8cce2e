import { sharedStateContract } from '../../../test/contracts/shared-state.contract.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { MemorySharedState } from './memory-shared-state.ts';

sharedStateContract({
  name: 'memory',
  async start() {
    const clock = new FakeClock();
    const state = new MemorySharedState(clock);
    return { nodes: [state, state], pass: (ms) => clock.advance(ms), async dispose() {} };
  },
});
