import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Channel } from './channel.ts';
import { FRAME, FRAME_AT, type Framed, PART, readAck, readData } from './frames.ts';

function framed(bytes: Buffer): Framed {
  return { bytes, from: 0, to: bytes.length };
}

const CHUNK = 1_000;

interface End {
  readonly channel: Channel;
  readonly got: string[];
  readonly sent: Buffer[];
  drained: number;
  broken: string | null;
}

function end(): End {
  const got: string[] = [];
  const sent: Buffer[] = [];
  const made: { drained: number; broken: string | null } = { drained: 0, broken: null };
  const channel = new Channel(
    {
      transmit: (frame) => sent.push(Buffer.from(frame.subarray(FRAME_AT))),
      received: (_part, ref, payload) => got.push(`${ref}:${payload.toString()}`),
      drained: () => made.drained++,
      broken: (reason) => {
        made.broken = reason;
      },
    },
    CHUNK,
    20_000,
  );
  return Object.assign(made, { channel, got, sent });
}

/** Carries the frames that one end sent to the other, except the lost ones. */
function carry(from: End, to: End, lost: (at: number) => boolean = () => false): void {
  for (const [at, frame] of from.sent.splice(0).entries()) {
    if (lost(at)) continue;
    if (frame[0] === FRAME.data) to.channel.data(readData(framed(frame))!);
    else to.channel.ack(readAck(framed(frame))!);
  }
}

function pair(): readonly [End, End] {
  const [a, b] = [end(), end()];
  a.channel.open();
  b.channel.open();
  return [a, b];
}

test('lost frames are sent again, in order, and each payload once', () => {
  for (let seed = 1; seed <= 40; seed++) {
    const [a, b] = pair();
    let state = seed;
    const lost = (): boolean => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) % 3 === 0;
    const wanted: string[] = [];
    for (let at = 0; at < 120; at++) {
      const text = `${at} `.repeat((at * 37) % 900);
      a.channel.send(PART.emit, at, Buffer.from(text));
      wanted.push(`${at}:${text}`);
    }
    for (let turn = 0; turn < 3_000 && (!a.channel.settled || b.got.length < wanted.length); turn++) {
      carry(a, b, lost);
      carry(b, a, lost);
      if (turn % 3 === 0) a.channel.tick();
      if (turn % 3 === 1) b.channel.tick();
    }
    assert.deepEqual(b.got, wanted, `seed ${seed}`);
    assert.ok(a.channel.settled, `seed ${seed}`);
  }
});

test('at most one window is in flight, and a paused peer receives nothing', () => {
  const [a, b] = pair();
  b.channel.pause();
  for (let at = 0; at < 50; at++) a.channel.send(PART.emit, at, Buffer.alloc(CHUNK, 65));
  assert.ok(a.sent.length <= 5, `${a.sent.length} frames`);
  carry(a, b);
  carry(b, a);
  assert.equal(a.sent.length, 0);
  assert.equal(b.got.length, 0);
  b.channel.resume();
  for (let turn = 0; turn < 50; turn++) {
    carry(a, b);
    carry(b, a);
  }
  assert.equal(b.got.length, 50);
});

test('a payload above the limit breaks the channel and is not delivered', () => {
  const [a, b] = pair();
  a.channel.send(PART.result, 0, Buffer.alloc(30_000, 65));
  for (let turn = 0; turn < 50 && b.broken === null; turn++) {
    carry(a, b);
    carry(b, a);
  }
  assert.match(b.broken ?? '', /more than 20000 bytes/);
  assert.equal(b.got.length, 0);
});

test('invalid frames are not read', () => {
  assert.equal(readData(framed(Buffer.from([FRAME.data, 0, 0]))), null);
  assert.equal(readData(framed(Buffer.from([FRAME.data, 0, 0, 0, 1, 99, 0, 0, 0, 0, 0]))), null);
  assert.equal(readAck(framed(Buffer.from([FRAME.ack]))), null);
});
