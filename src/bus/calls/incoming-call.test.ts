import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { BusServing, ServingHandler } from '../bus.ts';
import type { Wire } from '../wire.ts';
import { CallTransport } from './call-transport.ts';
import type { FrameSender } from './frame-sender.ts';
import { ackFrame, dataFrame, FRAME, FRAME_AT, frameText, PART, Pieces, requestFrame } from './frames.ts';
import { IncomingCalls } from './incoming-calls.ts';

const SUBJECT = 'trunkline.test';
const ID = { family: 1, number: 1 };

/** A node that serves `SUBJECT`, one call at once; `sent` has the kinds of frames that it sends, `gone` the reasons. */
function servingNode(handler: ServingHandler) {
  const clock = new FakeClock(0);
  const sent: number[] = [];
  const gone: string[] = [];
  const transmit = (_to: unknown, _end: unknown, _id: unknown, bytes: Buffer): void => {
    sent.push(bytes[FRAME_AT]!);
    if (bytes[FRAME_AT] === FRAME.gone) gone.push(frameText({ bytes, from: FRAME_AT, to: bytes.length }));
  };
  const transport: CallTransport = new CallTransport(
    { connected: true, maxPayload: 1_048_576 } as Wire,
    clock,
    { transmit } as unknown as FrameSender,
    () => {},
    (look) => calls.tick(look),
  );
  const calls: IncomingCalls = new IncomingCalls(transport, Logger.silent());
  calls.serve(SUBJECT, handler, 1);
  const request = (number: number, total: number): void => {
    const id = { ...ID, number };
    const first = new Pieces(Buffer.from('first'));
    const bytes = requestFrame(SUBJECT, id, { deadlineMs: 600_000, total }, first, first.left);
    calls.onRequest({ ...id, bytes, from: FRAME_AT, to: bytes.length }, 'caller');
  };
  /** Sends `bytes` bytes of the rest, as the data frame `seq`. */
  const rest = (number: number, seq: number, pieces: Pieces, bytes: number): void => {
    const frame = dataFrame(seq, PART.request, 0, pieces, bytes);
    calls.take({ ...ID, number }, 'caller', { bytes: frame, from: FRAME_AT, to: frame.length });
  };
  return { clock, calls, sent, gone, request, rest };
}

test('a request whose rest does not come within 5 s is forgotten, does not begin, and leaves room for another', async () => {
  const begun: string[] = [];
  const { clock, calls, sent, gone, request } = servingNode(({ payload }) => {
    begun.push(String(payload));
  });
  request(1, 6);
  await clock.advance(4_900);
  request(2, 5);
  assert.deepEqual(sent.splice(0), [FRAME.accept, FRAME.data], 'the first is accepted, the second refused');
  await clock.advance(200);
  assert.equal(calls.size, 0);
  assert.deepEqual(gone, ['the rest of the request did not arrive']);
  request(3, 5);
  assert.deepEqual(begun, ['first']);
});

test('a request whose parts each come within 5 s begins when it is complete', async () => {
  const begun: string[] = [];
  const { clock, gone, request, rest } = servingNode(({ payload }) => {
    begun.push(String(payload));
  });
  request(1, 8);
  const pieces = new Pieces(Buffer.from('abc'));
  for (const seq of [1, 2, 3]) {
    await clock.advance(4_900);
    rest(1, seq, pieces, 1);
  }
  assert.deepEqual(begun, ['firstabc']);
  await clock.advance(10_000);
  assert.deepEqual(gone, []);
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

test('onEnd is called once for each call, with callerLost if the caller is lost before an acknowledgement', async () => {
  const served: BusServing[] = [];
  const told: string[] = [];
  const { clock, calls, request } = servingNode((call) => {
    served.push(call);
    const name = served.length;
    call.onEnd = (callerLost) => told.push(`${name} ${callerLost ? 'lost' : 'ended'}`);
    call.onCancel = () => told.push(`${name} cancelled`);
  });
  /** Begins a call that is accepted. */
  const begin = async (number: number): Promise<BusServing> => {
    request(number, 5);
    await clock.advance(50);
    return served.at(-1)!;
  };
  (await begin(1)).answer(Buffer.from('the answer'));
  assert.deepEqual(told, []);
  const ack = ackFrame(2, false);
  calls.take({ ...ID, number: 1 }, 'caller', { bytes: ack, from: FRAME_AT, to: ack.length });
  assert.deepEqual(told.splice(0), ['1 ended']);
  (await begin(2)).answer(Buffer.from('the answer'));
  calls.peerLost('caller', 'it is silent');
  assert.deepEqual(told.splice(0), ['2 lost']);
  await begin(3);
  calls.peerLost('caller', 'it is silent');
  assert.deepEqual(told.splice(0), ['3 lost', '3 cancelled']);
  request(4, 5);
  served.at(-1)!.answer(Buffer.from('a short answer at once'));
  assert.deepEqual(told, ['4 ended']);
  assert.equal(calls.size, 0);
});
