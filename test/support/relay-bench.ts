import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { LineSplitter } from '../../src/upstream/process/line-splitter.ts';
import type { Transport, TransportReceiver } from '../../src/upstream/transport/transport.ts';
import type { TransportBench } from '../contracts/transport.contract.ts';

/**
 * A process whose standard streams the test holds: `relay.mjs` with the address of a socket as its argument, run by the
 * transport that `make` makes. `path`: the socket is a file.
 */
export async function relayBench(
  receiver: TransportReceiver,
  make: (address: string) => Transport,
  path?: string,
): Promise<TransportBench> {
  const listener = createServer();
  if (path === undefined) listener.listen(0, '127.0.0.1');
  else listener.listen(path);
  await once(listener, 'listening');
  const address = listener.address();
  const transport = make(typeof address === 'object' && address !== null ? String(address.port) : address!);
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
