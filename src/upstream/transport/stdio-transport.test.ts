import { relayBench } from '../../../test/support/relay-bench.ts';
import { nodeSpec, stdioBench } from '../../../test/support/stdio-bench.ts';
import { transportContract } from './transport.contract.ts';

transportContract({
  name: 'stdio',
  pushes: true,
  emits: true,
  endsWithServer: true,
  start: (receiver) => relayBench(receiver, (port) => stdioBench(nodeSpec('relay.mjs', [port])).transport),
});
