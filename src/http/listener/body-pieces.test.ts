import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { BodyCollector } from '../client/active-request.ts';
import { BodyBudget } from '../context/body-budget.ts';
import { BodyReader } from './body-reader.ts';

const TEXT = Buffer.alloc(64 * 1024, 'abc');
const ROUNDS = 32;
/** An object for each piece would take several hundred MiB in all. */
const MAX_GROWTH = 128 * 1024 * 1024;

/** Adds the text byte by byte; returns how much the heap has grown meanwhile. */
function byteByByte(add: (piece: Buffer) => void): number {
  const before = process.memoryUsage().heapUsed;
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < TEXT.length; i++) add(TEXT.subarray(i, i + 1));
  }
  return process.memoryUsage().heapUsed - before;
}

test('goal:G1 a request that comes byte by byte costs its bytes, not an object for each', () => {
  const request = Object.assign(new EventEmitter(), { headers: {}, resume: () => {} });
  let body: Buffer | null = null;
  new BodyReader(request as unknown as IncomingMessage, 64 * 1024 * 1024, new BodyBudget(), (whole) => {
    body = whole;
  });
  const grown = byteByByte((piece) => request.emit('data', piece));
  request.emit('end');
  assert.ok(body !== null && Buffer.concat(new Array(ROUNDS).fill(TEXT)).equals(body));
  assert.ok(grown < MAX_GROWTH, `${grown >> 20} MiB`);
});

test('fault:F09 a response that comes byte by byte costs its bytes, and the read buffer is free for the next read', () => {
  const collector = new BodyCollector(-1, 64 * 1024 * 1024);
  const shared = Buffer.alloc(64 * 1024);
  const grown = byteByByte((piece) => {
    piece.copy(shared, 7);
    assert.ok(collector.add(shared, 7, 8));
    shared[7] = 0;
  });
  TEXT.copy(shared);
  assert.ok(collector.add(shared, 0, shared.length));
  shared.fill(0);
  assert.ok(collector.take()?.equals(Buffer.concat(new Array(ROUNDS + 1).fill(TEXT))));
  assert.ok(grown < MAX_GROWTH, `${grown >> 20} MiB`);
});
