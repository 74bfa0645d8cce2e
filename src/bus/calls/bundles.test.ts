import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SIGNATURE_BYTES, type Signer } from '../trust/signer.ts';
import type { Wire } from '../wire.ts';
import { FrameSender } from './frame-sender.ts';
import { Entries, FRAME, frameText, keyOf, plainFrame } from './frames.ts';

const CALL = '00112233445566aa';
const ID = { family: 0x00112233, number: 0x445566aa };
const turn = (): Promise<void> => new Promise((done) => setImmediate(done));
const frame = (text: string): Buffer => plainFrame(FRAME.cancel, text);

interface Sent {
  readonly peer: string;
  readonly begins: number | null;
  readonly entries: string[];
}

/** Passes each message to `send`, with the number under which a missing subscriber is reported. */
function posting(
  send: (peer: string, message: Buffer, begins: number | null) => void,
  maxPayload = 1_000_000,
): FrameSender {
  const last = (subject: string): string => subject.split('.').at(-1)!;
  const publish: Wire['publish'] = (subject, message, reply) =>
    send(last(subject), message, reply === undefined ? null : Number(last(reply)));
  return new FrameSender(
    { connected: true, maxPayload, publish } as Wire,
    { peer: 'me', sign() {} } as unknown as Signer,
  );
}

function sending(maxPayload = 1_000_000): { readonly bundles: FrameSender; readonly sent: Sent[] } {
  const sent: Sent[] = [];
  const bundles = posting((peer, message, begins) => {
    const entries: string[] = [];
    const read = new Entries(message.subarray(SIGNATURE_BYTES));
    while (read.next()) {
      const { family, number } = read;
      assert.deepEqual({ family, number }, ID);
      entries.push(`${read.end} ${CALL} ${frameText(read)}`);
    }
    assert.ok(read.isComplete);
    sent.push({ peer, begins, entries });
  }, maxPayload);
  return { bundles, sent };
}

test('frames to a peer in one turn are one message, in order; a message that begins a call has its number', async () => {
  const { bundles, sent } = sending();
  bundles.transmit('a', 'caller', ID, frame('one'));
  const number = bundles.transmit('b', 'serving', ID, frame('two'));
  assert.equal(bundles.transmit('b', 'new', ID, frame('three')), number);
  assert.equal(sent.length, 0);
  await turn();
  assert.deepEqual(sent, [
    { peer: 'a', begins: null, entries: [`caller ${CALL} one`] },
    { peer: 'b', begins: number, entries: [`serving ${CALL} two`, `new ${CALL} three`] },
  ]);
  assert.notEqual(bundles.transmit('b', 'new', ID, frame('four')), number);
  await turn();
  assert.equal(sent.length, 3);
});

test('no message exceeds the limit, and a long one leaves at once, after earlier frames', () => {
  const { bundles, sent } = sending();
  const long = 'x'.repeat(70_000);
  const half = 'y'.repeat(40_000);
  for (const text of ['first', half, half, long, 'last']) bundles.transmit('a', 'caller', ID, frame(text));
  assert.deepEqual(
    sent.map(({ entries }) => entries.map((entry) => entry.length - CALL.length - 8)),
    [[5, 40_000], [40_000], [70_000]],
  );
  bundles.flush();
  assert.deepEqual(sent[3]!.entries, [`caller ${CALL} last`]);
  const narrow = sending(200);
  for (let at = 0; at < 4; at++) narrow.bundles.transmit('a', 'caller', ID, frame('z'.repeat(50)));
  narrow.bundles.flush();
  assert.deepEqual(
    narrow.sent.map(({ entries }) => entries.length),
    [2, 2],
  );
});

test('a bundle has room for any number of frames, and each message has its own memory', () => {
  const messages: Buffer[] = [];
  const bundles = posting((_peer, message) => messages.push(message));
  const texts = Array.from({ length: 200 }, (_, at) => `${at} `.repeat(1 + (at % 40)));
  for (let round = 0; round < 3; round++) {
    for (const text of texts) bundles.transmit('a', 'caller', ID, frame(text));
    bundles.flush();
  }
  assert.equal(messages.length, 3);
  for (const message of messages) {
    const read = new Entries(message.subarray(SIGNATURE_BYTES));
    const found: string[] = [];
    while (read.next()) found.push(frameText(read));
    assert.deepEqual(found, texts);
    message.fill(0);
  }
});

test('frames that wait when the connection is lost are lost with it', async () => {
  const { bundles, sent } = sending();
  bundles.transmit('a', 'new', ID, frame('lost'));
  bundles.dropQueued();
  await turn();
  assert.equal(sent.length, 0);
});

test('messages with wrong lengths are not read to their end', () => {
  const message = Buffer.concat([entry('one'), entry('two')]);
  const read = (bytes: Buffer): [boolean, number] => {
    const entries = new Entries(bytes);
    let count = 0;
    while (entries.next()) count++;
    return [entries.isComplete, count];
  };
  assert.deepEqual(read(message), [true, 2]);
  for (let at = 1; at < message.length; at++) {
    const [whole, count] = read(message.subarray(0, at));
    assert.ok(whole ? at === message.length / 2 : count < 2, `cut at ${at}`);
  }
  const elsewhere = Buffer.from(message);
  elsewhere[4] = 9;
  assert.deepEqual(read(elsewhere), [false, 0]);
});

test('calls of many peers with the same numbers are distinguished', () => {
  const most = 2 ** 32 - 1;
  const ids = [0, 1, 100, most].flatMap((family) => [1, 2, most].map((number) => ({ family, number })));
  const keys = new Set(ids.map(keyOf));
  assert.equal(keys.size, ids.length);
  for (const key of keys) assert.ok(key > 0 && Number.isSafeInteger(key), String(key));
});

function entry(text: string): Buffer {
  const messages: Buffer[] = [];
  const bundles = posting((_peer, message) => messages.push(message.subarray(SIGNATURE_BYTES)));
  bundles.transmit('a', 'caller', ID, frame(text));
  bundles.flush();
  return Buffer.from(messages[0]!);
}
