import { createServer, type RequestListener } from 'node:http';
import { createServer as createSecureServer, type ServerOptions } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { TestAuthority } from './certificates.ts';

const DAY_MS = 86_400_000;

/** The answers of the plain server by path, as the URL of a beginner may get them. */
const ANSWERS: Readonly<Record<string, RequestListener>> = {
  '/html': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Sign in</html>'),
  '/json': (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{"hello":1}'),
  '/empty': (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(),
  '/text': (_, response) => response.writeHead(200, { 'content-type': 'text/plain' }).end('OK'),
  '/401': (_, response) => response.writeHead(401, { 'www-authenticate': 'Bearer scope="read"' }).end(),
  '/403': (_, response) => response.writeHead(403).end('not you'),
  '/500': (_, response) => response.writeHead(500).end('database is down'),
  '/429': (_, response) => response.writeHead(429, { 'retry-after': '60' }).end('slower'),
  '/moved': (_, response) => response.writeHead(308, { location: 'http://127.0.0.1:1/mcp/' }).end(),
  '/hang': () => {},
};

/** A server of a revision that is not known yet. */
export const NEW_REVISION = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  const result = { protocolVersion: '2099-01-01', capabilities: {}, serverInfo: { name: 'n', version: '1' } };
  const answer = method === 'initialize' ? { result } : { error: { code: -32601, message: 'no such method' } };
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
})`;

/** Servers behind URLs that a beginner may enter by mistake. */
export class MistakenNetwork {
  readonly authority = new TestAuthority();
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  /** Address of the plain server, without a path. */
  http = '';
  selfSigned = '';
  otherName = '';
  expired = '';
  notYet = '';
  /** Asks for a certificate of the client. */
  mutual = '';
  /** No HTTP at all: it greets as a mail server does. */
  mail = '';

  static async open(): Promise<MistakenNetwork> {
    const network = new MistakenNetwork();
    const { authority } = network;
    const handler: RequestListener = (request, response) => {
      const answer = ANSWERS[request.url ?? ''];
      if (answer === undefined) response.writeHead(404).end('nothing here');
      else answer(request, response);
    };
    const here = ['127.0.0.1', 'localhost'];
    const [past, soon] = [new Date(Date.now() - DAY_MS), new Date(Date.now() + DAY_MS)];
    const secure = (options: ServerOptions) => network.#listen(createSecureServer(options, handler), 'https');
    network.http = await network.#listen(createServer(handler), 'http');
    network.selfSigned = await secure(new TestAuthority('Unknown').issue({ name: 'here', hosts: here }));
    network.otherName = await secure(authority.issue({ name: 'other', hosts: ['other.example'] }));
    const long = new Date(0);
    network.expired = await secure(authority.issue({ name: 'old', hosts: here, from: long, to: past }));
    network.notYet = await secure(authority.issue({ name: 'new', hosts: here, from: soon }));
    const asks = { requestCert: true, rejectUnauthorized: true, ca: authority.cert };
    network.mutual = await secure({ ...authority.issue({ name: 'strict', hosts: here }), ...asks });
    network.mail = await network.#listen(
      createTcpServer((socket) => socket.on('error', () => {}).end('220 mail.example ESMTP\r\n')),
      'http',
    );
    return network;
  }

  async #listen(server: Server, scheme: string): Promise<string> {
    this.#servers.push(server);
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => new Promise((done) => server.close(done))));
  }
}
