import type { Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { clientPortContract, type RawPeer } from '../../../test/contracts/client-port.contract.ts';
import { TestAuthority } from '../../../test/support/certificates.ts';
import { listenRaw, onCleanUp } from '../../../test/support/http-client.ts';
import { openHttpClient } from './open-http-client.ts';

function peerOf(socket: Socket): RawPeer {
  return {
    write: (text) => void socket.write(text, 'latin1'),
    end: (text) => void socket.end(text, 'latin1'),
    reset: () => void socket.destroy(),
    onData: (task) => void socket.on('data', (chunk) => task(chunk.toString('latin1'))),
    onClose: (task) => void socket.on('close', task),
  };
}

clientPortContract('plain HTTP', {
  async open(onPeer, limits) {
    const port = await listenRaw((socket) => onPeer(peerOf(socket)));
    return openHttpClient(`http://127.0.0.1:${port}/mcp`, limits);
  },
});

const authority = new TestAuthority();
const server = authority.issue({ name: 'localhost', hosts: ['localhost', '127.0.0.1'] });

clientPortContract('TLS', {
  async open(onPeer, limits) {
    const sockets = new Set<Socket>();
    const listening = createTlsServer({ cert: server.cert, key: server.key }, (socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      onPeer(peerOf(socket));
    });
    await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
    onCleanUp(() => {
      listening.close();
      for (const socket of sockets) socket.destroy();
    });
    const { port } = listening.address() as { port: number };
    return openHttpClient(`https://localhost:${port}/mcp`, { ...limits, tls: { ca: authority.cert } });
  },
});

/** A proxy that forwards absolute-form requests as the server in the test takes them. */
clientPortContract('through an HTTP proxy', {
  async open(onPeer, limits) {
    const port = await listenRaw((socket) => {
      const peer = peerOf(socket);
      onPeer({
        ...peer,
        onData: (task) => peer.onData((text) => task(text.replace(/^([A-Z]+) http:\/\/mcp\.example(?=\/)/, '$1 '))),
      });
    });
    return openHttpClient('http://mcp.example/mcp', { ...limits, env: { HTTP_PROXY: `http://127.0.0.1:${port}` } });
  },
});
