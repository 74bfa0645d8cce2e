import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StreamMemory } from './stream-memory.ts';

const BLOCK = 8 * 1024;
const SLAB = 128 * BLOCK;

function frameOf(...sizes: number[]) {
  const parts = sizes.map((size, i) => Buffer.alloc(size, i + 1));
  return { parts, length: sizes.reduce((sum, size) => sum + size, 0) };
}

test('goal:G16 a frame is copied into blocks unchanged, whatever its parts', () => {
  const memory = new StreamMemory();
  for (const sizes of [[20_000], [5, 70_000, 2], [BLOCK, BLOCK], [BLOCK - 1, 0, 2], [1, 3 * BLOCK]]) {
    const frame = frameOf(...sizes);
    const copy = memory.copy(frame);
    const expected = Buffer.concat(frame.parts);
    for (const part of frame.parts) part.fill(0xff);
    assert.deepEqual([copy.length, copy.inBlocks], [frame.length, true]);
    assert.ok(Buffer.concat(copy.parts).equals(expected));
    assert.equal(copy.parts.length, Math.ceil(frame.length / BLOCK));
  }
});

test('goal:G16 returned blocks are used again, and whole slabs are freed when there are many', () => {
  const memory = new StreamMemory();
  const held = Array.from({ length: 200 }, () => memory.copy(frameOf(64_000)));
  assert.equal(new Set(held.flatMap(({ parts }) => parts.map((b) => `${b.byteOffset}`))).size, 128, 'in slabs');
  const most = memory.bytes;
  assert.equal(most, Math.ceil((200 * 8) / 128) * SLAB);
  for (let i = 0; i < 1_000; i++) {
    const at = (i * 7919) % held.length;
    memory.giveBack(held[at]!.parts);
    held[at] = memory.copy(frameOf(64_000));
  }
  assert.equal(memory.bytes, most);
  const places = held.flatMap(({ parts }) => parts);
  for (const [i, block] of places.entries()) block.fill(i % 251);
  assert.ok(
    places.every((block, i) => block.every((byte) => byte === i % 251)),
    'no block has two owners',
  );
  for (const { parts } of held) memory.giveBack(parts);
  assert.equal(memory.bytes, 2 * SLAB);
  const again = Array.from({ length: 3 }, () => memory.copy(frameOf(SLAB - 1)));
  for (const { parts } of again) memory.giveBack(parts);
  assert.equal(memory.bytes, 2 * SLAB);
});
