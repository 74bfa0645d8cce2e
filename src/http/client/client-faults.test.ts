import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { answering, closeAll, failureOf, listenRaw, onCleanUp, send } from '../../../test/support/http-client.ts';
import { HttpClient, type HttpClientOptions, type HttpRequest } from './client.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const get: HttpRequest = { method: 'GET', path: '/', headers: [], body: [] };

afterEach(closeAll);

function clientOf(port: number, options: HttpClientOptions = {}): HttpClient {
  const client = new HttpClient(new URL(`http://127.0.0.1:${port}`), options);
  onCleanUp(() => client.close());
  return client;
}

describe('sent bytes', () => {
  test('fault:F24 a reset at each of 20 offsets of the request: the client reports that bytes went out, and never repeats', async () => {
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

  test('fault:F24 a reset at each of 20 offsets of the answer: the reply is lost, and the client reports that bytes went out', async () => {
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
    test(`fault:F24 a kept connection that the server has ${what} unnoticed: nothing went out, and the request goes on another`, async () => {
      const worker = await onOtherThread(how);
      const client = clientOf(worker.port);
      assert.equal((await send(client)).body, 'ok');
      // The end of the connection arrives while this thread is busy: the client cannot have noticed it.
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
  test('fault:F25 a connection that is not made in time fails as not sent', async () => {
    const client = new HttpClient(new URL('http://slow.example:80'), {
      connectTimeoutMs: 50,
      lookup: () => {},
    });
    onCleanUp(() => client.close());
    const failure = failureOf(await send(client));
    assert.deepEqual([failure.kind, failure.sent], ['timeout', false]);
  });

  test('fault:F25 a head that has begun must be complete in time, even if its bytes arrive steadily', async () => {
    const { port } = await answering((_count, socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      const timer = setInterval(() => socket.write('X-A: b\r\n'), 10);
      socket.on('close', () => clearInterval(timer));
    });
    const failure = failureOf(await send(clientOf(port, { headTimeoutMs: 100 })));
    assert.deepEqual([failure.kind, failure.sent], ['timeout', true]);
  });

  test('fault:F25 a JSON body that has begun must not pause', async () => {
    const { port } = await answering((_count, socket) =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{'),
    );
    const failure = failureOf(await send(clientOf(port, { bodyPauseMs: 80 }), undefined, 'whole'));
    assert.deepEqual([failure.kind, failure.sent], ['timeout', true]);
  });

  test('fault:F25 the client does not limit the wait for the head, a slow steady body and a silent event stream', async () => {
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

  test('a body that the receiver paused does not count as pausing', async () => {
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
