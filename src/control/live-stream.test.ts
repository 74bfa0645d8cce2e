import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { CallRecord } from '../model/call-record.ts';
import type { ControlPlane } from './control-plane.ts';
import { LiveStream } from './live-stream.ts';
import type { EventWriter } from './operation.ts';

interface CallsEvent {
  readonly topic: string;
  readonly calls: readonly CallRecord[];
  readonly lost: boolean;
}

/** The batch that a reader of the calls of `mine` gets after so many calls of each server. */
function batchOf(t: TestContext, mine: number, others: number): CallsEvent | undefined {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const sent: CallsEvent[] = [];
  const writer = {
    event(_id: string | null, parts: readonly Buffer[]) {
      sent.push(JSON.parse(parts.join('')) as CallsEvent);
      return true;
    },
    end() {},
  } as unknown as EventWriter;
  const records: { readonly server: string }[] = [];
  const journal = { end: 0, cursor: () => '' };
  const calls = {
    node: null,
    get end() {
      return records.length;
    },
    after(from: number, max: number, wanted: (call: CallRecord) => boolean) {
      const found = records.slice(from).filter((one) => wanted(one as CallRecord));
      return { calls: found.slice(0, max), end: records.length, lost: false };
    },
  };
  const rates = { follow: () => () => {} };
  const plane = { events: journal, logs: journal, calls, rates } as unknown as ControlPlane;
  const wanted = (call: CallRecord): boolean => call.server === 'mine';
  const stream = new LiveStream(writer, plane, { wanted, logs: null }, () => {});
  for (let i = 0; i < mine; i++) records.push({ server: 'mine' });
  for (let i = 0; i < others; i++) records.push({ server: 'other' });
  t.mock.timers.tick(200);
  stream.close();
  t.mock.timers.reset();
  return sent.find(({ topic }) => topic === 'calls');
}

test('a batch reports lost calls only if they match the filter of the reader', (t) => {
  for (const [mine, others, shown, lost] of [
    [3, 600, 3, false],
    [500, 1, 500, false],
    [501, 0, 500, true],
  ] as const) {
    const batch = batchOf(t, mine, others);
    assert.deepEqual([batch?.calls.length, batch?.lost], [shown, lost], `${mine} and ${others}`);
  }
  assert.equal(batchOf(t, 0, 600), undefined);
});
