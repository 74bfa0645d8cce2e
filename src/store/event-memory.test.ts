import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventMemory, type LoggedMessage } from './event-memory.ts';

const MIB = 1024 * 1024;

class Message implements LoggedMessage {
  segment: LoggedMessage['segment'] = null;
  slot = 0;
  start = 0;
  bytes = 0;
  readonly fill: number;

  constructor(fill: number) {
    this.fill = fill % 251;
  }
}

test('goal:G16 kept messages stay whole, in bounded memory, whatever is removed between them', () => {
  const memory = new EventMemory(4 * MIB);
  const kept: Message[] = [];
  const buffers = new Set<ArrayBufferLike>();
  let live = 0;
  for (let i = 0; i < 20_000; i++) {
    const message = new Message(i);
    // Messages of all sizes, most of them short; one in 200 has memory of its own.
    const bytes = i % 200 === 0 ? 300_000 : ((i * 7919) % 97) ** 2;
    memory.put(message, Buffer.alloc(bytes, message.fill));
    kept.push(message);
    live += bytes;
    if (bytes < MIB / 8 && bytes > 0) buffers.add(memory.view(message).buffer);
    // Every seventh stays for long, the others fall out by age.
    while (live > 4 * MIB - 300_000) {
      const at = kept.findIndex((_, at) => (i + at) % 7 !== 0);
      const [out] = kept.splice(at, 1);
      live -= out!.bytes;
      memory.release(out!);
      assert.equal(memory.view(out!).length, 0);
    }
  }
  for (const message of kept) {
    const view = memory.view(message);
    assert.equal(view.length, message.bytes);
    assert.ok(view.every((byte) => byte === message.fill));
  }
  const held = [...buffers].reduce((sum, buffer) => sum + buffer.byteLength, 0);
  assert.ok(held <= 8 * MIB, `${held} bytes for ${live}`);
});

test('own memory is given back at once, segments after a while without use', () => {
  const memory = new EventMemory(4 * MIB);
  const large = new Message(1);
  memory.put(large, Buffer.alloc(MIB, 1));
  const own = memory.view(large).buffer;
  memory.release(large);
  assert.equal(own.byteLength, 0);
  const small = Array.from({ length: 40 }, (_, i) => new Message(i));
  for (const message of small) memory.put(message, Buffer.alloc(100_000, message.fill));
  const [first, last] = [memory.view(small[0]!).buffer, memory.view(small.at(-1)!).buffer];
  for (const message of small) memory.release(message);
  assert.equal(first.byteLength, MIB);
  memory.trim();
  assert.deepEqual([first.byteLength, last.byteLength], [0, MIB], 'the one in use stays');
  memory.put(small[0]!, Buffer.alloc(10, 7));
  assert.deepEqual([...memory.view(small[0]!)], Array(10).fill(7));
});
