import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { HttpClientPort, HttpRequest } from '../../src/http/client/client-port.ts';
import { HeaderBlock } from '../../src/http/client/header-block.ts';
import { closeAll, failureOf, onCleanUp, send, until } from '../support/http-client.ts';

/** Limits that a test shortens, so that they expire quickly. */
export interface ClientLimits {
  readonly headTimeoutMs?: number;
  readonly bodyPauseMs?: number;
}

/** One raw connection of a client, as the server in the test sees it: plain bytes, without the layers around them. */
export interface RawPeer {
  write(text: string): void;
  end(text: string): void;
  reset(): void;
  onData(task: (text: string) => void): void;
  onClose(task: () => void): void;
}

export interface ClientSubject {
  /** Starts a server that meets every connection with `onPeer`; returns a client of it. */
  open(onPeer: (peer: RawPeer) => void, limits?: ClientLimits): Promise<HttpClientPort>;
}

const get: HttpRequest = { method: 'GET', path: '/', headers: [], body: [] };
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** The suite of the port `HttpClientPort`. */
export function clientPortContract(name: string, subject: ClientSubject): void {
  describe(`HTTP client port: ${name}`, () => {
    afterEach(closeAll);

    async function open(onPeer: (peer: RawPeer) => void, limits: ClientLimits = {}): Promise<HttpClientPort> {
      const client = await subject.open(onPeer, limits);
      onCleanUp(() => client.close());
      return client;
    }

    test('sends method, path, both kinds of headers and all parts of the body', async () => {
      let received = '';
      const client = await open((peer) =>
        peer.onData((text) => {
          received += text;
          if (received.endsWith('{"a":1}')) peer.write(OK);
        }),
      );
      const ended = await send(client, {
        method: 'POST',
        path: '/mcp?q=1',
        block: new HeaderBlock(['Content-Type', 'application/json']),
        headers: ['Mcp-Method', 'tools/call'],
        body: [Buffer.from('{"a":'), Buffer.from('1}')],
      });
      assert.equal(ended.status, 200);
      assert.match(received, /^POST \/mcp\?q=1 HTTP\/1\.1\r\n/);
      assert.match(received, /\r\ncontent-type: application\/json\r\n/i);
      assert.match(received, /\r\nmcp-method: tools\/call\r\n/i);
      assert.match(received, /\r\ncontent-length: 7\r\n/i);
      assert.equal(received.match(/\r\nhost: /gi)?.length, 1);
    });

    test('delivers head, pieces and end of a streamed answer, and headers in lower case', async () => {
      const client = await open((peer) =>
        peer.onData(() => {
          peer.write('HTTP/1.1 202 Accepted\r\nX-Some: Thing\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n');
          setTimeout(() => peer.write('3\r\ndef\r\n0\r\n\r\n'), 30);
        }),
      );
      const ended = await send(client);
      assert.equal(ended.status, 202);
      assert.equal(ended.headers?.get('x-some'), 'Thing');
      assert.deepEqual(ended.pieces, ['abc', 'def']);
    });

    test('collects a whole answer on demand, one without a body too', async () => {
      const answers = [
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n',
        'HTTP/1.1 204 No Content\r\n\r\n',
      ];
      const client = await open((peer) => peer.onData(() => peer.write(answers.shift()!)));
      assert.deepEqual((await send(client, get, 'whole')).pieces, ['abcdef']);
      const none = await send(client, get, 'whole');
      assert.deepEqual([none.status, none.pieces, none.failure], [204, [], null]);
    });

    test('skips interim answers and follows no redirect', async () => {
      const client = await open((peer) =>
        peer.onData(() =>
          peer.write('HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n'),
        ),
      );
      assert.equal((await send(client)).status, 302);
    });

    test('a whole answer above the limit is too large', async () => {
      const client = await open((peer) =>
        peer.onData(() => peer.write('HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n')),
      );
      const failure = failureOf(await send(client, { ...get, maxBodyBytes: 1_000 }, 'whole'));
      assert.deepEqual([failure.kind, failure.sent], ['too_large', true]);
    });

    test('a head above the limit is reported as the head, with its limit', async () => {
      const client = await open((peer) =>
        peer.onData(() => peer.write(`HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(70_000)}\r\nContent-Length: 2\r\n\r\n{}`)),
      );
      const failure = failureOf(await send(client, get, 'whole'));
      assert.deepEqual([failure.kind, failure.sent], ['head_too_large', true]);
      assert.equal(failure.message, 'the head of the answer is larger than the limit of 65536 bytes');
    });

    test('a connection that ends in the middle of an answer is a reset after sending', async () => {
      const client = await open((peer) =>
        peer.onData(() => peer.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf')),
      );
      const failure = failureOf(await send(client, get, 'whole'));
      assert.deepEqual([failure.kind, failure.sent], ['reset', true]);
    });

    test('a reset reports whether the connection had served an earlier request', async () => {
      const answers = [OK, null, null];
      const client = await open((peer) =>
        peer.onData(() => {
          const answer = answers.shift()!;
          if (answer === null) peer.end('');
          else peer.write(answer);
        }),
      );
      assert.equal((await send(client)).status, 200);
      // The connection is free a turn after its answer has ended.
      await new Promise(setImmediate);
      assert.equal(failureOf(await send(client)).reusedConnection, true);
      assert.equal(failureOf(await send(client)).reusedConnection, false);
    });

    test('an answer that is not HTTP is a protocol failure after sending', async () => {
      const client = await open((peer) => peer.onData(() => peer.end('SSH-2.0-OpenSSH_9.2\r\n\r\n')));
      const failure = failureOf(await send(client));
      assert.deepEqual([failure.kind, failure.sent], ['protocol', true]);
    });

    test('header values that HTTP does not allow are refused and not sent', async () => {
      const client = await open((peer) => peer.onData(() => peer.write(OK)));
      for (const value of ['b\r\nX-Evil: 1', 'a☃', '\ud800']) {
        const failure = failureOf(await send(client, { ...get, headers: ['X-A', value] }));
        assert.deepEqual([failure.kind, failure.sent], ['malformed', false]);
      }
    });

    test('abort ends without an event and closes the connection', async () => {
      let closed = false;
      const client = await open((peer) => {
        peer.onClose(() => void (closed = true));
        peer.onData(() => peer.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun'));
      });
      let words = 0;
      await new Promise<void>((resolve) => {
        const request = client.request(get, {
          head: () => 'stream',
          data: () => {
            request.abort();
            resolve();
          },
          end: () => words++,
          error: () => words++,
        });
      });
      await until(() => closed);
      assert.equal(words, 0);
    });

    test('pause holds pieces back until resume', async () => {
      const client = await open((peer) =>
        peer.onData(() => {
          peer.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab');
          setTimeout(() => peer.write('cd'), 30);
        }),
      );
      let text = '';
      await new Promise<void>((resolve, reject) => {
        const request = client.request(get, {
          head: () => 'stream',
          data: (chunk) => {
            text += chunk.toString();
            if (text !== 'ab') return;
            request.pause();
            void delay(150).then(() => {
              assert.equal(text, 'ab');
              request.resume();
            });
          },
          end: resolve,
          error: reject,
        });
      });
      assert.equal(text, 'abcd');
    });

    for (const chunk of [null, 64]) {
      const how = chunk === null ? '' : `, in chunks of ${chunk} bytes`;
      test(`fault:F25 one turn of the event loop reads no more of a flood than a slice${how}`, async () => {
        const bytes = 2 * 1024 * 1024;
        const body = chunk === null ? ':\n'.repeat(bytes / 2) : `40\r\n${':'.repeat(63)}\n\r\n`.repeat(bytes / chunk);
        const framing = chunk === null ? 'Connection: close' : 'Transfer-Encoding: chunked';
        const head = `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n${framing}\r\n\r\n`;
        const client = await open((peer) =>
          peer.onData(() => (chunk === null ? peer.end(head + body) : peer.write(`${head}${body}0\r\n\r\n`))),
        );
        let [total, inTurn, most] = [0, 0, 0];
        await new Promise<void>((resolve, reject) => {
          client.request(get, {
            head: () => 'stream',
            data: (piece) => {
              if (inTurn === 0) setImmediate(() => (inTurn = 0));
              total += piece.length;
              inTurn += piece.length;
              most = Math.max(most, inTurn);
              // Takes as long as scanning the piece would: 6 ms for 64 KiB.
              for (const until = performance.now() + (6 * piece.length) / 65_536; performance.now() < until; );
            },
            end: resolve,
            error: reject,
          });
        });
        assert.equal(total, bytes);
        assert.ok(most <= 160 * 1024, `${most} bytes in one turn`);
      });
    }

    test('close fails the request in progress, and every later one', async () => {
      const client = await open((peer) => peer.onData(() => {}));
      const running = send(client);
      await delay(150);
      client.close();
      assert.deepEqual([failureOf(await running).kind, failureOf(await running).sent], ['closed', true]);
      const later = failureOf(await send(client));
      assert.deepEqual([later.kind, later.sent], ['closed', false]);
    });

    test('fault:F25 a head or a JSON body that pauses times out; an event stream may be silent', async () => {
      const begun = [
        'HTTP/1.1 200 OK\r\nX-Slow',
        'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{',
      ];
      const client = await open(
        (peer) =>
          peer.onData(() => {
            const next = begun.shift();
            if (next !== undefined) {
              peer.write(next);
              return;
            }
            peer.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n:\n');
            setTimeout(() => peer.end(':\n'), 400);
          }),
        { headTimeoutMs: 120, bodyPauseMs: 120 },
      );
      for (let i = 0; i < 2; i++) {
        const failure = failureOf(await send(client));
        assert.deepEqual([failure.kind, failure.sent], ['timeout', true]);
      }
      assert.equal((await send(client)).body, ':\n:\n');
    });

    test('fault:F24 a reset after the first bytes of the request: bytes went out, and the client does not repeat it', async () => {
      let connections = 0;
      const client = await open((peer) => {
        connections += 1;
        peer.onData(() => peer.reset());
      });
      const failure = failureOf(await send(client, { ...get, method: 'POST', body: [Buffer.from('{}')] }));
      assert.deepEqual([failure.kind, failure.sent], ['reset', true]);
      assert.equal(connections, 1);
    });
  });
}
