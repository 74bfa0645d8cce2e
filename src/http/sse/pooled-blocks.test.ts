import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import type { HttpContext } from '../context/http-context.ts';
import { PooledBlocks, StreamMemory } from './stream-memory.ts';

/** A connection whose kernel takes as many bytes as the test sets. */
class Line extends EventEmitter {
  bytesWritten = 0;
  writableLength = 0;
  queuedBytes = 0;
  destroyed = false;
  closed = false;
  readonly memory = new StreamMemory();
  readonly socket = this as unknown as Socket;
  readonly pooled = new PooledBlocks(this as unknown as HttpContext, this.memory);

  write(bytes: number): void {
    const { parts } = this.memory.copy({ parts: [Buffer.alloc(bytes)], length: bytes });
    this.bytesWritten += bytes;
    this.writableLength += bytes;
    this.pooled.add(parts);
  }

  takes(bytes: number): void {
    this.writableLength -= bytes;
    this.pooled.reclaim();
  }
}

test('goal:G16 a client that is always slightly behind costs memory only for unsent bytes, however long it reads', () => {
  const line = new Line();
  line.write(20_000);
  for (let i = 0; i < 1_000; i++) {
    line.write(20_000);
    line.takes(20_000);
    assert.equal(line.memory.takenBytes, 3 * 8 * 1024);
  }
  line.takes(19_999);
  assert.equal(line.pooled.none, false, 'the kernel has not taken the last byte');
  line.takes(1);
  assert.deepEqual([line.pooled.none, line.memory.takenBytes], [true, 0]);
});

test('blocks return once when the connection closes, and the stream ends', () => {
  const line = new Line();
  line.write(20_000);
  line.write(20_000);
  line.takes(20_000);
  line.pooled.leave();
  assert.equal(line.memory.takenBytes, 3 * 8 * 1024);
  line.writableLength = 0;
  line.pooled.reclaim();
  line.emit('close');
  assert.equal(line.memory.takenBytes, 0);
});

test('blocks behind another answer on the connection return when their own bytes are sent, however long it is', () => {
  const line = new Line();
  line.queuedBytes = 20_000;
  const { parts } = line.memory.copy({ parts: [Buffer.alloc(20_000)], length: 20_000 });
  line.pooled.add(parts);
  for (let i = 0; i < 10; i++) {
    line.bytesWritten += 20_000;
    line.pooled.reclaim();
    assert.equal(line.memory.takenBytes, 3 * 8 * 1024);
  }
  line.queuedBytes = 0;
  line.bytesWritten += 20_000;
  line.writableLength = 1;
  line.pooled.reclaim();
  assert.equal(line.memory.takenBytes, 3 * 8 * 1024);
  line.takes(1);
  assert.equal(line.memory.takenBytes, 0);
});
