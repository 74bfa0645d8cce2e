import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  answering,
  closeAll,
  type Ended,
  failureOf,
  listenRaw,
  onCleanUp,
  send,
  until,
} from '../../../test/support/http-client.ts';
import { HeaderBlock, HttpClient, type HttpClientOptions, type HttpRequest } from './client.ts';

const get: HttpRequest = { method: 'GET', path: '/', headers: [], body: [] };
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

afterEach(closeAll);

function clientOf(port: number, options: HttpClientOptions = {}): HttpClient {
  const client = new HttpClient(new URL(`http://127.0.0.1:${port}`), options);
  onCleanUp(() => client.close());
  return client;
}

describe('lean HTTP client', () => {
  test('writes one request as it should be, head and body in one piece', async () => {
    let received = '';
    const { port } = await answering((_count, socket) => socket.write(OK));
    const raw = await listenRaw((socket) => {
      socket.on('data', (chunk) => {
        received += `[${chunk.toString('latin1')}]`;
        socket.write(OK);
      });
    });
    assert.notEqual(port, raw);
    const ended = await send(clientOf(raw), {
      method: 'POST',
      path: '/mcp?x=1',
      headers: ['Content-Type', 'application/json'],
      body: [Buffer.from('{"a":'), Buffer.from('1}')],
    });
    assert.equal(ended.status, 200);
    assert.equal(ended.body, 'ok');
    assert.equal(
      received,
      `[POST /mcp?x=1 HTTP/1.1\r\nHost: 127.0.0.1:${raw}\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}]`,
    );
  });

  test('requests with the same block of headers each have their own line, length and further headers', async () => {
    const heads: string[] = [];
    const port = await listenRaw((socket) =>
      socket.on('data', (chunk) => {
        heads.push(chunk.toString('latin1').replace(/Host: .*\r\n/, ''));
        socket.write(OK);
      }),
    );
    const client = clientOf(port);
    const block = new HeaderBlock(['X-Block', 'b']);
    const post = (path: string, body: string, headers: readonly string[] = []): Promise<unknown> =>
      send(client, { method: 'POST', path, block, headers, body: [Buffer.from(body)] });
    await post('/a', '11');
    await post('/a', '22');
    await post('/a', '333');
    await post('/b', '444');
    await post('/b', '555', ['X-Own', 'o']);
    await post('/b', '666');
    const head = (path: string, length: number, own = ''): string =>
      `POST ${path} HTTP/1.1\r\nX-Block: b\r\n${own}Content-Length: ${length}\r\n\r\n`;
    assert.deepEqual(heads, [
      `${head('/a', 2)}11`,
      `${head('/a', 2)}22`,
      `${head('/a', 3)}333`,
      `${head('/b', 3)}444`,
      `${head('/b', 3, 'X-Own: o\r\n')}555`,
      `${head('/b', 3)}666`,
    ]);
  });

  test('reuses the connection last used', async () => {
    const { port, sockets } = await answering((count, socket) =>
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n${count}`),
    );
    const client = clientOf(port);
    await Promise.all([send(client), send(client)]);
    assert.equal(sockets.length, 2);
    for (let i = 0; i < 5; i++) await send(client);
    assert.equal(sockets.length, 2);
    assert.deepEqual(client.sockets, { open: 2, idle: 2, waiting: 0 });
  });

  test('opens no more sockets than allowed; the rest wait in order', async () => {
    const { port, sockets } = await answering((_count, socket) => void setTimeout(() => socket.write(OK), 10));
    const client = clientOf(port, { maxSockets: 2 });
    const order: number[] = [];
    await Promise.all([0, 1, 2, 3, 4].map((i) => send(client).then(() => order.push(i))));
    assert.equal(sockets.length, 2);
    assert.deepEqual(order, [0, 1, 2, 3, 4]);
  });

  for (const [what, answer] of [
    ['Connection: close', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok'],
    ['Keep-Alive: timeout=1', 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok'],
  ] as const) {
    test(`does not reuse a connection after ${what}`, async () => {
      const { port, sockets } = await answering((_count, socket) => socket.write(answer));
      const client = clientOf(port);
      assert.equal((await send(client)).body, 'ok');
      assert.equal((await send(client)).body, 'ok');
      assert.equal(sockets.length, 2);
    });
  }

  test('reads a body until the connection closes', async () => {
    const { port } = await answering((_count, socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nto the end'));
    const ended = await send(clientOf(port));
    assert.equal(ended.body, 'to the end');
    assert.equal(ended.failure, null);
  });

  test('closes idle connections', async () => {
    const { port } = await answering((_count, socket) => socket.write(OK));
    const client = clientOf(port, { idleMs: 30 });
    await send(client);
    await until(() => client.sockets.open === 0);
  });

  test('bytes after a response are never read as the next response', async () => {
    const { port, sockets } = await answering((count, socket) =>
      socket.write(count === 1 ? `${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil` : OK),
    );
    const client = clientOf(port);
    assert.equal((await send(client)).body, 'ok');
    assert.equal((await send(client)).body, 'ok');
    assert.equal(sockets.length, 2);
  });

  test('a request sent from `end` of another one is not answered with the bytes that follow the first response', async () => {
    const { port } = await answering((count, socket) =>
      socket.write(count === 1 ? `${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil` : OK),
    );
    const client = clientOf(port);
    const second = await new Promise<Ended>((resolve) => {
      client.request(get, {
        head: () => 'stream',
        data: () => {},
        end: () => resolve(send(client)),
        error: assert.fail,
      });
    });
    assert.equal(second.body, 'ok');
  });

  test('streams pieces as they come, and collects a whole body on demand', async () => {
    const { port } = await answering((_count, socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n');
      setTimeout(() => socket.write('3\r\ndef\r\n0\r\n\r\n'), 30);
    });
    const client = clientOf(port);
    assert.deepEqual((await send(client)).pieces, ['abc', 'def']);
    assert.deepEqual((await send(client, get, 'whole')).pieces, ['abcdef']);
  });

  test('a whole body above the limit is too large, announced or not; the connection is closed', async () => {
    const answers = [
      'HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n${'a'.repeat(2000)}\r\n`,
    ];
    const { port } = await answering((count, socket) => socket.write(answers[count - 1]!));
    const client = clientOf(port);
    for (const _ of answers) {
      const failure = failureOf(await send(client, { ...get, maxBodyBytes: 1000 }, 'whole'));
      assert.equal(failure.kind, 'too_large');
      assert.equal(failure.sent, true);
    }
    assert.equal(client.sockets.open, 0);
  });

  test('carries bodies larger than every buffer on the way', async () => {
    const big = randomBytes(3_000_000);
    const port = await listenRaw((socket) => {
      let length = 0;
      let head = true;
      socket.on('data', (chunk) => {
        if (head) length -= chunk.indexOf('\r\n\r\n') + 4;
        head = false;
        length += chunk.length;
        if (length === big.length) {
          length = 0;
          head = true;
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${big.length}\r\n\r\n`);
          socket.write(big);
        }
      });
    });
    const client = clientOf(port);
    for (const mode of ['whole', 'whole', 'stream'] as const) {
      const ended = await send(client, { ...get, method: 'POST', body: [big] }, mode);
      assert.ok(ended.body === big.toString('latin1'), mode);
    }
    assert.equal(client.sockets.open, 1);
  });

  test('abort ends the exchange at once and without an event, at any point', async () => {
    const { port, sockets } = await answering((_count, socket) =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun'),
    );
    const client = clientOf(port, { maxSockets: 1 });
    let words = 0;
    const silent = { head: () => 'stream' as const, data: () => {}, end: () => words++, error: () => words++ };
    const running = await new Promise<{ abort(): void }>((resolve) => {
      const request = client.request(get, { ...silent, data: () => resolve(request) });
    });
    const waiting = client.request(get, silent);
    waiting.abort();
    running.abort();
    await until(() => client.sockets.open === 0);
    await until(() => sockets[0]!.destroyed);
    assert.equal(words, 0);
    assert.equal(client.sockets.waiting, 0);
  });

  test('pause applies back pressure to the server', async () => {
    const total = 64 * 1024 * 1024;
    let accepted = 0;
    const port = await listenRaw((socket) => {
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`);
        const chunk = Buffer.alloc(256 * 1024);
        const more = (): void => {
          while (accepted < total) {
            accepted += chunk.length;
            if (!socket.write(chunk)) {
              socket.once('drain', more);
              return;
            }
          }
        };
        more();
      });
    });
    let received = 0;
    const client = clientOf(port);
    await new Promise<void>((resolve, reject) => {
      const request = client.request(get, {
        head: () => {
          request.pause();
          return 'stream';
        },
        data: (chunk) => void (received += chunk.length),
        end: resolve,
        error: reject,
      });
      void delay(150).then(async () => {
        const stopped = accepted;
        await delay(100);
        assert.equal(accepted, stopped);
        assert.ok(accepted < total, 'the server got no back pressure');
        request.resume();
      });
    });
    assert.equal(received, total);
  });

  test('refuses header values and paths that would add lines', async () => {
    const { port } = await answering((_count, socket) => socket.write(OK));
    const client = clientOf(port);
    for (const bad of [
      { ...get, headers: ['X-A', 'b\r\nX-Evil: 1'] },
      { ...get, headers: ['X-A\r\nX-Evil', 'b'] },
      { ...get, headers: ['X-A', 'b\0'] },
      { ...get, path: '/a b' },
      { ...get, path: '/a\r\nX: 1' },
      { ...get, path: 'http://elsewhere/' },
      { ...get, method: 'GET /x' },
    ]) {
      const failure = failureOf(await send(client, bad));
      assert.equal(failure.kind, 'malformed');
      assert.equal(failure.sent, false);
      assert.doesNotMatch(failure.message, /Evil: 1/);
    }
  });

  test('close fails requests in progress and waiting requests', async () => {
    const { port } = await answering(() => {});
    const client = clientOf(port, { maxSockets: 1 });
    const both = [send(client), send(client)];
    await delay(50);
    client.close();
    const [first, second] = await Promise.all(both);
    assert.deepEqual([failureOf(first!).kind, failureOf(first!).sent], ['closed', true]);
    assert.deepEqual([failureOf(second!).kind, failureOf(second!).sent], ['closed', false]);
    assert.equal(failureOf(await send(client)).kind, 'closed');
  });

  test('no listener: refused, not sent', async () => {
    const server: Server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    const failure = failureOf(await send(clientOf(port)));
    assert.deepEqual([failure.kind, failure.sent], ['refused', false]);
  });

  test('a name without address: dns, not sent', async () => {
    const client = new HttpClient(new URL('http://name.invalid:80'), {
      lookup: (_name, _options, callback) =>
        callback(
          Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND', syscall: 'getaddrinfo' }),
          '',
          0,
        ),
    });
    onCleanUp(() => client.close());
    const failure = failureOf(await send(client));
    assert.deepEqual([failure.kind, failure.sent], ['dns', false]);
  });

  test('an answer before the request is fully sent ends the connection', async () => {
    const port = await listenRaw((socket) => {
      socket.once('data', () => {
        socket.pause();
        socket.write('HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n');
      });
    });
    const client = clientOf(port);
    const ended = await send(client, { ...get, method: 'POST', body: [Buffer.alloc(20_000_000)] });
    assert.equal(ended.status, 413);
    assert.equal(client.sockets.open, 0);
  });
});
