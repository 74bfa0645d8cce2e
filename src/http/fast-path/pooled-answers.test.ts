import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { until } from '../../../test/support/http-client.ts';
import { listenerRig } from '../../../test/support/http-listener.ts';
import { takeBuffer } from '../../model/pooled-buffers.ts';

const MIB = 1024 * 1024;

describe('answers in pooled buffers', () => {
  test('an answer of pooled parts arrives whole, however slowly it is read; then its buffers are released', async (t) => {
    const { listener, port } = await listenerRig(t);
    const bodies: Buffer[] = [];
    listener.routes.add('/lent', {
      GET: (context) => {
        const body = takeBuffer(8 * MIB).fill(context.query);
        bodies.push(body);
        context.answerWithPooled(200, 'text/plain', [body.subarray(0, 10), Buffer.from('|'), body.subarray(10)]);
      },
    });
    const readers = ['x', 'y', 'z'].map((letter) => new SlowReader(port, letter));
    t.after(() => {
      for (const { socket } of readers) socket.destroy();
    });
    await until(() => readers.every((reader) => reader.begun));
    assert.ok(bodies.every((body) => body.length === 8 * MIB));
    for (const reader of readers) reader.socket.resume();
    await until(() => readers.every((reader) => reader.rest === 0));
    assert.ok(readers.every((reader) => reader.wrong === 0));
    await until(() => bodies.every((body) => body.length === 0));
  });

  test('bytes that a broken connection was still writing are not released', async (t) => {
    const { listener, port } = await listenerRig(t);
    const body = takeBuffer(32 * MIB).fill('k');
    let gone = false;
    listener.routes.add('/lent', {
      GET: (context) => {
        context.onDisconnect(() => (gone = true));
        context.answerWithPooled(200, 'text/plain', [body, Buffer.from('.')]);
      },
    });
    const reader = new SlowReader(port, 'k');
    await until(() => reader.begun);
    reader.socket.resetAndDestroy();
    await until(() => gone);
    assert.equal(body.length, 32 * MIB);
  });
});

/** Reads the head of the answer and stops; once resumed, counts the bytes that are not its letter. */
class SlowReader {
  readonly socket: Socket;
  begun = false;
  rest = 8 * MIB + 1;
  wrong = -1;

  constructor(port: number, letter: string) {
    const code = letter.charCodeAt(0);
    this.socket = connect(port, '127.0.0.1', () => {
      this.socket.write(`GET /lent?${letter} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    });
    this.socket.on('data', (chunk: Buffer) => {
      let body = chunk;
      if (!this.begun) {
        this.begun = true;
        this.socket.pause();
        body = chunk.subarray(chunk.indexOf('\r\n\r\n') + 4);
      }
      this.rest -= body.length;
      for (const byte of body) if (byte !== code) this.wrong++;
    });
    this.socket.on('error', () => {});
  }
}
