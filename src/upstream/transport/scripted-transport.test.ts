import { transportContract } from '../../../test/contracts/transport.contract.ts';
import { ScriptedServer, SILENCE } from '../../../test/support/scripted-server.ts';

/** The scripted server, which tests of upstreams use in place of a process, meets the contract of real transports. */
transportContract({
  name: 'scripted',
  pushes: true,
  emits: true,
  endsWithServer: true,
  async start(receiver) {
    const handlers = new Proxy({}, { get: () => () => SILENCE });
    const transport = new ScriptedServer(handlers).open();
    await transport.open(receiver);
    let read = 0;
    return {
      transport,
      server: {
        next: async () => {
          while (transport.lines.length === read) await new Promise(setImmediate);
          return Buffer.from(transport.lines[read++]!);
        },
        answer: (request, message) => transport.answer(request, message),
        emit: (_request, message) => transport.deliver(message),
        push: (message) => transport.deliver(message),
        die: () => transport.end(),
      },
      dispose: async () => {},
    };
  },
});
