import { sharedLogContract } from '../../../test/contracts/shared-log.contract.ts';
import { MemorySharedLog } from './memory-shared-log.ts';

sharedLogContract({
  name: 'memory',
  async start() {
    const log = new MemorySharedLog();
    return { nodes: [log, log], async dispose() {} };
  },
});
