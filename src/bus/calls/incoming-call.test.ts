import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { BusServing, ServingHandler } from '../bus.ts';
import type { Wire } from '../wire.ts';
import { CallTransport } from './call-transport.ts';
import type { FramePost } from './frame-post.ts';
import { FRAME, FRAME_AT, Pieces, requestFrame } from './frames.ts';
import { IncomingCalls } from './incoming-calls.ts';

const SUBJECT = 'trunkline.test';
const ID = { family: 1, number: 1 };

/** A node that serves `SUBJECT`, one call at once; `sent` has the kinds of frames that it sends. */
function servingNode(handler: ServingHandler) {
  const clock = new FakeClock(0);
  const sent: number[] = [];
  const post = { transmit: (_to: unknown, _end: unknown, _id: unknown, frame: Buffer) => sent.push(frame[FRAME_AT]!) };
  const transport: CallTransport = new CallTransport(
    { connected: true, maxPayload: 1_048_576 } as Wire,
    clock,
    post as unknown as FramePost,
    () => {},
    (look) => calls.tick(look),
  );
  const calls: IncomingCalls = new IncomingCalls(transport, Logger.silent());
  calls.serve(SUBJECT, handler, 1);
  const request = (number: number, total: number): void => {
    const id = { ...ID, number };
    const first = new Pieces(Buffer.from('first'));
    const bytes = requestFrame(SUBJECT, id, { deadlineMs: 600_000, total }, first, first.left);
    calls.addressed({ ...id, bytes, from: FRAME_AT, to: bytes.length }, 'caller');
  };
  return { clock, calls, sent, request };
}

test('a request whose rest does not come within 5 s is forgotten, does not begin, and leaves room for another', async () => {
  const begun: string[] = [];
  const { clock, calls, sent, request } = servingNode(({ payload }) => {
    begun.push(String(payload));
  });
  request(1, 6);
  await clock.advance(4_900);
  request(2, 5);
  assert.deepEqual(sent.splice(0), [FRAME.accept, FRAME.data], 'the first is accepted, the second refused');
  await clock.advance(200);
  assert.equal(calls.size, 0);
  request(3, 5);
  assert.deepEqual(begun, ['first']);
});

test('an answer is kept for 30 s for a caller that does not acknowledge it, and does not count as running', async () => {
  const served: BusServing[] = [];
  const { clock, calls, sent, request } = servingNode((call) => {
    served.push(call);
  });
  request(1, 5);
  await clock.advance(50);
  assert.deepEqual(sent.splice(0), [FRAME.accept]);
  served[0]!.answer(Buffer.from('the answer'));
  assert.deepEqual(sent.splice(0), [FRAME.data]);
  await clock.advance(29_900);
  assert.equal(calls.size, 1);
  await clock.advance(200);
  assert.equal(calls.size, 0);
  request(2, 5);
  assert.equal(served.length, 2);
});
