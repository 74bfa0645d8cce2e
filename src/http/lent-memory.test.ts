import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { until } from '../../test/support/http-client.ts';
import { listenerRig } from '../../test/support/http-listener.ts';
import { claim, giveBack, lend } from '../model/lent-memory.ts';

const MIB = 1024 * 1024;

describe('lent memory', () => {
  test('what was given back is lent again, and whoever still holds a view of it finds nothing', () => {
    const first = lend(MIB);
    const view = first.subarray(100, 200);
    assert.equal(first.length, MIB);
    first.fill('a');
    giveBack(view);
    assert.equal(view.length, 100, 'not before somebody has claimed it');
    assert.ok(claim(view));
    giveBack(view);
    assert.equal(view.length, 0);
    assert.equal(first.length, 0);
    const second = lend(MIB - 1000);
    assert.equal(second.length, MIB - 1000);
    assert.equal(second.toString('latin1', 0, 3), 'aaa');
    assert.notEqual(lend(MIB - 1000).toString('latin1', 0, 3), 'aaa');
    giveBack(first);
    assert.equal(second.toString('latin1', 0, 3), 'aaa');
  });

  test('what was not lent is left alone: small bodies, and buffers of others', () => {
    const small = lend(1000);
    const own = Buffer.alloc(MIB, 'b');
    for (const bytes of [small, own]) {
      assert.ok(!claim(bytes));
      giveBack(bytes);
      assert.ok(bytes.length > 0);
    }
  });

  test('a buffer is not held for a body of less than half its size; huge ones are let go of', () => {
    const huge = lend(64 * MIB);
    assert.ok(claim(huge));
    giveBack(huge);
    assert.equal(huge.length, 0);
    const wide = lend(3 * MIB);
    wide.fill('c');
    assert.ok(claim(wide));
    giveBack(wide);
    assert.notEqual(lend(MIB).toString('latin1', 0, 3), 'ccc');
  });

  test('what two claim is shared and never given back', () => {
    const both = lend(MIB);
    assert.ok(claim(both));
    assert.ok(!claim(both.subarray(1)));
    giveBack(both);
    assert.equal(both.length, MIB);
  });

  test('an answer of lent parts arrives whole, however slowly it is read, and then goes back', async (t) => {
    const { listener, port } = await listenerRig(t);
    const bodies: Buffer[] = [];
    listener.routes.add('/lent', {
      GET: (context) => {
        const body = lend(8 * MIB).fill(context.query);
        bodies.push(body);
        context.answerWithLent(200, 'text/plain', [body.subarray(0, 10), Buffer.from('|'), body.subarray(10)]);
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

  test('what a broken connection was still writing is not let go of', async (t) => {
    const { listener, port } = await listenerRig(t);
    const body = lend(32 * MIB).fill('k');
    let gone = false;
    listener.routes.add('/lent', {
      GET: (context) => {
        context.whenGone(() => (gone = true));
        context.answerWithLent(200, 'text/plain', [body, Buffer.from('.')]);
      },
    });
    const reader = new SlowReader(port, 'k');
    await until(() => reader.begun);
    reader.socket.resetAndDestroy();
    await until(() => gone);
    assert.equal(body.length, 32 * MIB);
  });
});

/** Reads the head of the answer and stops; resumed, counts what is not its letter. */
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
