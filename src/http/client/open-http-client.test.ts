import assert from 'node:assert/strict';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { createServer, type TlsOptions } from 'node:tls';
import { TestAuthority } from '../../../test/support/certificates.ts';
import { closeAll, type Ended, failureOf, listenRaw, onCleanUp, send } from '../../../test/support/http-client.ts';
import { Secret } from '../../model/secret.ts';
import { type OpenHttpClientOptions, openHttpClient } from './open-http-client.ts';
import { Resolver } from './resolver.ts';
import { undiciFailure } from './undici-request.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const authority = new TestAuthority();
const stranger = new TestAuthority('Stranger');
const day = 86_400_000;

afterEach(closeAll);

/** Counts requests, that is, decrypted bytes that reached the server. */
async function tlsServer(options: TlsOptions): Promise<{ port: number; requests: string[] }> {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer(options, (socket) => {
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      requests.push(chunk.toString('latin1'));
      socket.write(OK);
    });
  });
  server.on('connection', (socket: Socket) => {
    socket.on('error', () => {});
    sockets.add(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onCleanUp(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { port: (server.address() as { port: number }).port, requests };
}

function ask(url: string, options: OpenHttpClientOptions): Promise<Ended> {
  const client = openHttpClient(url, options);
  onCleanUp(() => client.close());
  return send(client, { method: 'POST', path: '/', headers: [], body: [Buffer.from('{}')] });
}

describe('TLS to servers', () => {
  const bad: [string, { cert: string; key: string }][] = [
    ['expired', authority.issue({ name: 'old', hosts: ['localhost'], to: new Date(Date.now() - day / 2) })],
    ['not valid yet', authority.issue({ name: 'new', hosts: ['localhost'], from: new Date(Date.now() + day) })],
    ['for another host', authority.issue({ name: 'other', hosts: ['other.example'] })],
    ['from an untrusted authority', stranger.issue({ name: 'localhost', hosts: ['localhost'] })],
    ['signed by itself', stranger],
  ];
  for (const [what, certified] of bad) {
    test(`fault:F27 a certificate ${what}: not sent, kind tls, no byte of the request decrypted`, async () => {
      const { port, requests } = await tlsServer(certified);
      const failure = failureOf(await ask(`https://localhost:${port}`, { tls: { ca: authority.cert } }));
      assert.deepEqual([failure.kind, failure.sent], ['tls', false], failure.message);
      assert.deepEqual(requests, []);
    });
  }

  test('fault:F27 cut in the handshake, or no TLS at all: not sent, and nothing goes out unencrypted', async () => {
    for (const answer of ['', 'HTTP/1.1 400 Bad Request\r\n\r\n', '\x16\x03\x03\x00\x40partial']) {
      let seen = '';
      const port = await listenRaw((socket) => {
        socket.on('data', (chunk) => {
          seen += chunk.toString('latin1');
          socket.end(answer, 'latin1');
        });
      });
      const failure = failureOf(await ask(`https://localhost:${port}`, { tls: { ca: authority.cert } }));
      assert.deepEqual([failure.kind, failure.sent], ['tls', false], failure.message);
      assert.doesNotMatch(seen, /POST/);
    }
  });

  test('fault:F27 a handshake that stops fails within the time for connecting, not sent', async () => {
    const port = await listenRaw(() => {});
    const failure = failureOf(await ask(`https://localhost:${port}`, { connectTimeoutMs: 1_000 }));
    assert.deepEqual([failure.kind, failure.sent], ['timeout', false]);
  });

  test('the client presents its certificate; a server that gets none ends the handshake: not sent', async () => {
    const ours = authority.issue({ name: 'trunkline' });
    const server = authority.issue({ name: 'localhost', hosts: ['localhost'] });
    const { port, requests } = await tlsServer({
      ...server,
      ca: authority.cert,
      maxVersion: 'TLSv1.2',
      requestCert: true,
      rejectUnauthorized: true,
    });
    const url = `https://localhost:${port}`;
    const tls = { ca: authority.cert, cert: ours.cert, key: new Secret(ours.key) };
    assert.equal((await ask(url, { tls })).body, 'ok');
    assert.equal(requests.length, 1);
    const failure = failureOf(await ask(url, { tls: { ca: authority.cert } }));
    assert.deepEqual([failure.kind, failure.sent], ['tls', false], failure.message);
    assert.equal(requests.length, 1);
  });

  test('in TLS 1.3 the refusal of a client certificate comes after our first bytes, which the server has not read', () => {
    const alert = Object.assign(new Error('alert'), { code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED' });
    assert.deepEqual([undiciFailure(alert, true).kind, undiciFailure(alert, true).sent], ['tls', false]);
    const broken = Object.assign(new Error('bad record'), { code: 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC' });
    assert.deepEqual([undiciFailure(broken, true).kind, undiciFailure(broken, true).sent], ['tls', true]);
  });

  test('an invalid key is a tls failure, not sent, and the message does not show it', async () => {
    const failure = failureOf(await ask('https://localhost:9', { tls: { cert: 'x', key: new Secret('very-secret') } }));
    assert.deepEqual([failure.kind, failure.sent], ['tls', false]);
    assert.doesNotMatch(failure.message, /very-secret/);
  });
});

describe('through a proxy', () => {
  /** A proxy that tunnels `CONNECT host:port` to 127.0.0.1, whatever the host, or refuses. */
  async function tunnel(refuse = false): Promise<{ port: number; heads: string[] }> {
    const heads: string[] = [];
    const port = await listenRaw((socket) => {
      socket.once('data', (chunk) => {
        const head = chunk.toString('latin1');
        heads.push(head);
        if (refuse) {
          socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n');
          return;
        }
        const target = connect(Number(/^CONNECT [^:]+:(\d+)/.exec(head)![1]), '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 OK\r\n\r\n');
          socket.pipe(target).pipe(socket);
        });
        target.on('error', () => socket.destroy());
        onCleanUp(() => target.destroy());
      });
    });
    return { port, heads };
  }

  test('https goes through a tunnel, checked end to end, with the credentials of the proxy URL', async () => {
    const server = await tlsServer(authority.issue({ name: 's', hosts: ['server.example'] }));
    const proxy = await tunnel();
    const ended = await ask(`https://server.example:${server.port}`, {
      tls: { ca: authority.cert },
      env: { https_proxy: `http://user:pass@127.0.0.1:${proxy.port}` },
    });
    assert.equal(ended.body, 'ok', ended.failure?.message);
    assert.match(proxy.heads[0]!, /^CONNECT server\.example:/);
    assert.match(proxy.heads[0]!, /proxy-authorization: Basic dXNlcjpwYXNz/i);
    assert.doesNotMatch(server.requests[0]!, /proxy-authorization/i);
  });

  test('fault:F27 the certificate of the server is checked behind the proxy too', async () => {
    const server = await tlsServer(authority.issue({ name: 's', hosts: ['other.example'] }));
    const proxy = await tunnel();
    const failure = failureOf(
      await ask(`https://server.example:${server.port}`, {
        tls: { ca: authority.cert },
        env: { HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` },
      }),
    );
    assert.deepEqual([failure.kind, failure.sent], ['tls', false], failure.message);
    assert.deepEqual(server.requests, []);
  });

  test('a proxy that refuses, and a missing one: not sent', async () => {
    const proxy = await tunnel(true);
    const refused = failureOf(
      await ask('https://server.example', { env: { HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` } }),
    );
    assert.deepEqual([refused.kind, refused.sent], ['proxy', false], refused.message);
    const absent = failureOf(await ask('https://server.example', { env: { HTTPS_PROXY: 'http://127.0.0.1:9' } }));
    assert.equal(absent.sent, false);
  });
});

test('other schemes are refused when the client is opened', () => {
  assert.throws(() => openHttpClient('file:///etc/passwd'), TypeError);
  assert.throws(() => openHttpClient('http://a.example', { env: { HTTP_PROXY: 'http://' } }), TypeError);
});

test('security:8 a client for public addresses connects to no name that resolves to an internal address, over HTTP and TLS', async () => {
  let reached = 0;
  const server = createTcpServer((socket) => {
    reached++;
    socket.on('error', () => {}).destroy();
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const outcome = (url: string, addresses: string[], publicOnly: boolean): Promise<string> => {
    const all = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    const resolver = new Resolver({ lookup: (_name, answer) => setImmediate(() => answer(null, all)) });
    const client = openHttpClient(url, { resolver, publicOnly, headTimeoutMs: 300, connectTimeoutMs: 1_000 });
    return new Promise<string>((done) => {
      const end = (text: string): void => {
        client.close();
        done(text);
      };
      const handler = { head: () => 'whole' as const, data: () => {}, end: () => end('answered') };
      const failed = { ...handler, error: (failure: Error) => end(failure.message) };
      client.request({ method: 'GET', path: '/', headers: [], body: [] }, failed);
    });
  };
  for (const scheme of ['http', 'https']) {
    const url = `${scheme}://public.example:${port}/`;
    for (const inside of [
      ['127.0.0.1'],
      ['93.184.216.34', '127.0.0.1'],
      ['10.0.0.1'],
      ['169.254.169.254'],
      ['100.64.0.1'],
      ['0.0.0.0'],
      ['::1'],
      ['::ffff:127.0.0.1'],
      ['64:ff9b::7f00:1'],
      ['fd00::1'],
    ]) {
      assert.match(await outcome(url, inside, true), /an address of this machine or its network/, inside.join());
    }
    assert.equal(reached, 0);
    await outcome(url, ['127.0.0.1'], false);
    assert.ok(reached > 0, 'the same name is reachable without publicOnly');
    reached = 0;
  }
  server.close();
});
