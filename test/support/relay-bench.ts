import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { StdioSpec } from '../../src/model/server.ts';
import { LineSplitter } from '../../src/upstream/process/line-splitter.ts';
import type { TransportBench } from '../../src/upstream/transport/transport.contract.ts';
import type { TransportReceiver } from '../../src/upstream/transport/transport.ts';
import { nodeSpec, stdioBench } from './stdio-bench.ts';

/** A process whose standard streams the test holds: a relay to a socket. `placed` says where the process runs. */
export async function relayBench(
  receiver: TransportReceiver,
  placed: (spec: StdioSpec) => StdioSpec = (spec) => spec,
): Promise<TransportBench> {
  const listener = createServer();
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const { transport } = stdioBench(placed(nodeSpec('relay.mjs', [String(port)])));
  const connected = once(listener, 'connection');
  await transport.open(receiver);
  const [socket] = (await connected) as [Socket];
  socket.on('error', () => {});

  const arrived: Buffer[] = [];
  const waiting: ((message: Buffer) => void)[] = [];
  const lines = new LineSplitter(64 * 1024 * 1024, {
    line: (message) => (waiting.shift() ?? ((late) => arrived.push(late)))(message),
    blank: () => {},
    overflow: () => {},
    skipped: () => {},
    overflowEnd: () => {},
  });
  socket.on('data', (chunk: Buffer) => lines.push(chunk));
  const write = (message: Buffer): void => {
    socket.write(Buffer.concat([message, Buffer.from('\n')]));
  };
  return {
    transport,
    server: {
      next: () => {
        const message = arrived.shift();
        return message ? Promise.resolve(message) : new Promise((resolve) => waiting.push(resolve));
      },
      answer: (_request, message) => write(message),
      emit: (_request, message) => write(message),
      push: write,
      die: () => socket.destroy(),
    },
    async dispose() {
      socket.destroy();
      listener.close();
      await once(listener, 'close');
    },
  };
}
