import assert from 'node:assert/strict';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { closeAll, type Ended, listenRaw, onCleanUp, send } from './client.fixture.ts';
import { HttpClient, type HttpClientOptions, type HttpFailure, type HttpRequest } from './client.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

afterEach(closeAll);

function clientOf(port: number, options: HttpClientOptions = {}): HttpClient {
  const client = new HttpClient(new URL(`http://127.0.0.1:${port}`), options);
  onCleanUp(() => client.close());
  return client;
}

/** Answers `answer` to every request, told apart by the end of their heads (requests of these tests have no body). */
async function answering(
  answer: (count: number, socket: Socket) => void,
): Promise<{ port: number; sockets: Socket[] }> {
  const sockets: Socket[] = [];
  let count = 0;
  const port = await listenRaw((socket) => {
    sockets.push(socket);
    socket.on('data', () => answer(++count, socket));
  });
  return { port, sockets };
}

function failureOf(ended: Ended): HttpFailure {
  assert.ok(ended.failure !== null, `expected a failure, got ${ended.status} ${ended.body}`);
  return ended.failure;
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

  test('opens no more sockets than it may; the rest wait in order', async () => {
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

  test('bytes after a response never become the next one', async () => {
    const { port, sockets } = await answering((count, socket) =>
      socket.write(count === 1 ? `${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil` : OK),
    );
    const client = clientOf(port);
    assert.equal((await send(client)).body, 'ok');
    assert.equal((await send(client)).body, 'ok');
    assert.equal(sockets.length, 2);
  });

  test('a request from within `end` of another is not answered by what the first left over', async () => {
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

  test('a whole body above the limit is too large, announced or not; the connection is given up', async () => {
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
    const big = Buffer.alloc(3_000_000, 'x');
    const port = await listenRaw((socket) => {
      let length = 0;
      let head = true;
      socket.on('data', (chunk) => {
        if (head) length -= chunk.indexOf('\r\n\r\n') + 4;
        head = false;
        length += chunk.length;
        if (length === big.length) {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${big.length}\r\n\r\n`);
          socket.write(big);
        }
      });
    });
    const ended = await send(clientOf(port), { ...get, method: 'POST', body: [big] }, 'whole');
    assert.equal(ended.body.length, big.length);
  });

  test('abort ends the exchange at once and without a word, wherever it is', async () => {
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

  test('pause pushes the server back', async () => {
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
        assert.ok(accepted < total, 'the server was not pushed back');
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
      assert.equal(failure.kind, 'protocol');
      assert.equal(failure.sent, false);
      assert.doesNotMatch(failure.message, /Evil: 1/);
    }
  });

  test('close fails what is under way and what waits', async () => {
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

  test('nobody listens: refused, not sent', async () => {
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

  test('an answer before the request is fully out ends the connection', async () => {
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

const get: HttpRequest = { method: 'GET', path: '/', headers: [], body: [] };

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 5_000;
  while (!condition()) {
    assert.ok(performance.now() < end, 'did not happen within 5 s');
    await delay(5);
  }
}

describe('what was sent', () => {
  test('fault:F24 a reset at each of 20 offsets of the request: the client says that bytes went out, and never repeats', async () => {
    const body = Buffer.from(JSON.stringify({ id: 'call', filler: 'x'.repeat(2_000) }));
    const offsets = Array.from({ length: 20 }, (_, i) => (i === 0 ? 1 : i * 100));
    for (const offset of offsets) {
      let connections = 0;
      const port = await listenRaw((socket) => {
        connections += 1;
        socket.on('readable', () => {
          if (socket.read(offset) !== null) socket.resetAndDestroy();
        });
      });
      const failure = failureOf(await send(clientOf(port), { method: 'POST', path: '/', headers: [], body: [body] }));
      assert.equal(failure.kind, 'reset', `offset ${offset}`);
      assert.equal(failure.sent, true, `offset ${offset}`);
      assert.equal(connections, 1, `offset ${offset}`);
    }
  });

  test('fault:F24 a reset at each of 20 offsets of the answer: the reply is lost, and the client says that bytes went out', async () => {
    const answer = Buffer.from(
      `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 20\r\n\r\n${'y'.repeat(20)}`,
    );
    for (let i = 0; i < 20; i++) {
      const offset = Math.floor((i * answer.length) / 20);
      let requests = 0;
      const port = await listenRaw((socket) => {
        socket.once('data', () => {
          requests += 1;
          socket.write(answer.subarray(0, offset), () => setTimeout(() => socket.resetAndDestroy(), 5));
        });
      });
      const failure = failureOf(await send(clientOf(port), undefined, 'whole'));
      assert.deepEqual([failure.kind, failure.sent, requests], ['reset', true, 1], `offset ${offset}`);
    }
  });

  for (const [what, how, busyMs] of [
    ['reset', 'reset', 100],
    ['closed', 'close', 700],
  ] as const) {
    test(`fault:F24 a kept connection that the server has ${what} unseen: nothing went out, the request goes on another`, async () => {
      const worker = await onOtherThread(how);
      const client = clientOf(worker.port);
      assert.equal((await send(client)).body, 'ok');
      // The end of the connection arrives while this thread is busy: the client cannot have been told.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, busyMs);
      assert.equal(client.sockets.idle, 1);
      assert.equal((await send(client)).body, 'ok');
      assert.deepEqual(await worker.requests(), ['GET / HTTP/1.1', 'GET / HTTP/1.1']);
    });
  }
});

/** A server on its own thread that ends every connection after its first answer without announcing it. */
async function onOtherThread(how: 'reset' | 'close'): Promise<{ port: number; requests(): Promise<string[]> }> {
  const source = `
    const { createServer } = require('node:net');
    const { parentPort } = require('node:worker_threads');
    const requests = [];
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (chunk) => {
        requests.push(chunk.toString('latin1').split('\\r\\n')[0]);
        socket.write(${JSON.stringify(OK)});
        setTimeout(() => ${how === 'reset' ? 'socket.resetAndDestroy()' : 'socket.destroy()'}, 30);
      });
    });
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
    parentPort.on('message', () => parentPort.postMessage(requests));
  `;
  const worker = new Worker(source, { eval: true });
  onCleanUp(() => void worker.terminate());
  const next = <T>(): Promise<T> => new Promise((resolve) => worker.once('message', resolve));
  const port = await next<number>();
  return {
    port,
    requests: () => {
      const answer = next<string[]>();
      worker.postMessage('requests');
      return answer;
    },
  };
}

describe('slow servers', () => {
  test('fault:F25 a connection that is not made in time fails, not sent', async () => {
    const client = new HttpClient(new URL('http://slow.example:80'), {
      connectTimeoutMs: 50,
      lookup: () => {},
    });
    onCleanUp(() => client.close());
    const failure = failureOf(await send(client));
    assert.deepEqual([failure.kind, failure.sent], ['timeout', false]);
  });

  test('fault:F25 a head once begun must be finished in time, however steadily it drips', async () => {
    const { port } = await answering((_count, socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      const timer = setInterval(() => socket.write('X-A: b\r\n'), 10);
      socket.on('close', () => clearInterval(timer));
    });
    const failure = failureOf(await send(clientOf(port, { headTimeoutMs: 100 })));
    assert.deepEqual([failure.kind, failure.sent], ['timeout', true]);
  });

  test('fault:F25 a JSON body once begun must not pause', async () => {
    const { port } = await answering((_count, socket) =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{'),
    );
    const failure = failureOf(await send(clientOf(port, { bodyPauseMs: 80 }), undefined, 'whole'));
    assert.deepEqual([failure.kind, failure.sent], ['timeout', true]);
  });

  test('fault:F25 the wait for the head, a slow steady body and a silent event stream are nobody else’s business', async () => {
    const { port } = await answering((count, socket) => {
      if (count === 1) setTimeout(() => socket.write(OK), 300);
      if (count === 2) {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n');
        let left = 10;
        const timer = setInterval(() => (left-- > 0 ? socket.write('x') : clearInterval(timer)), 25);
      }
      if (count === 3) {
        socket.write(
          'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n:\n\r\n',
        );
        setTimeout(() => socket.write('0\r\n\r\n'), 300);
      }
    });
    const client = clientOf(port, { headTimeoutMs: 100, bodyPauseMs: 100 });
    for (const body of ['ok', 'xxxxxxxxxx', ':\n']) {
      const ended = await send(client);
      assert.equal(ended.failure, null);
      assert.equal(ended.body, body);
    }
  });

  test('a body that the receiver itself has paused does not count as pausing', async () => {
    const { port } = await answering((_count, socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab');
      setTimeout(() => socket.write('cd'), 40);
    });
    const client = clientOf(port, { bodyPauseMs: 80 });
    const body = await new Promise<string>((resolve, reject) => {
      let text = '';
      const request = client.request(get, {
        head: () => 'stream',
        data: (chunk) => {
          text += chunk.toString();
          if (text === 'ab') {
            request.pause();
            setTimeout(() => request.resume(), 250);
          }
        },
        end: () => resolve(text),
        error: reject,
      });
    });
    assert.equal(body, 'abcd');
  });
});
