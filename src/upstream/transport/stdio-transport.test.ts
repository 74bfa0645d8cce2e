import { transportContract } from '../../../test/contracts/transport.contract.ts';
import { relayBench } from '../../../test/support/relay-bench.ts';
import { nodeSpec, stdioBench } from '../../../test/support/stdio-bench.ts';

transportContract({
  name: 'stdio',
  pushes: true,
  emits: true,
  endsWithServer: true,
  start: (receiver) => relayBench(receiver, (port) => stdioBench(nodeSpec('relay.mjs', [port])).transport),
});
