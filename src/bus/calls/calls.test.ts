import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { Wire } from '../wire.ts';
import { CallEndpoint } from './call-endpoint.ts';
import { CallTransport } from './call-transport.ts';
import { Calls } from './calls.ts';
import type { FrameSender } from './frame-sender.ts';
import { type CallId, keyOf } from './frames.ts';

class TestCall extends CallEndpoint {
  readonly heard: string[] = [];
  looks = 0;

  constructor(owner: TestCalls, number: number, endMs: number) {
    super(owner, { family: 1, number }, 'peer');
    this.endIn(endMs);
  }

  override tick(look: Parameters<CallEndpoint['tick']>[0]): number {
    this.looks++;
    return super.tick(look);
  }

  again(ms: number): void {
    this.dueIn(ms);
  }

  protected due(): void {
    this.heard.push(`due ${this.transport.now}`);
  }

  protected expired(): void {
    this.heard.push(`expired ${this.transport.now}`);
    this.end();
  }

  data(): void {}
  ack(): void {}
  controlFrame(): void {}
  resync(): void {}
  transmit(): void {}
  received(): void {}
  drained(): void {}
  broken(): void {}
}

class TestCalls extends Calls<TestCall> {
  begin(number: number, endMs: number): TestCall {
    const call = new TestCall(this, number, endMs);
    this.open.set(keyOf(call), call);
    return call;
  }

  protected unknown(_id: CallId): void {}
}

function table(): { clock: FakeClock; calls: TestCalls } {
  const clock = new FakeClock(0);
  const transport: CallTransport = new CallTransport(
    {} as Wire,
    clock,
    {} as FrameSender,
    () => {},
    (look) => calls.tick(look),
  );
  const calls: TestCalls = new TestCalls(transport);
  return { clock, calls };
}

test('open calls are checked once a second, whatever else falls due', async () => {
  const { clock, calls } = table();
  const open = Array.from({ length: 100 }, (_, at) => calls.begin(at + 1, 60_000));
  for (let at = 0; at < 100; at++) {
    calls.begin(1_000 + at, 60_000).again(20);
    await clock.advance(50);
  }
  for (const { looks } of open) assert.ok(looks >= 4 && looks <= 7, `${looks} looks in 5 s`);
});

test('a call falls due once, on time before, at and after a beat, and not after it has ended', async () => {
  const { clock, calls } = table();
  calls.begin(1, 60_000);
  await clock.advance(1_000);
  const ends = [30, 400, 999, 1_000, 1_001, 2_500].map((ms, at) => ({ ms, call: calls.begin(10 + at, ms) }));
  const due = calls.begin(2, 1_700);
  due.again(500);
  await clock.advance(500);
  due.again(500);
  due.again(600);
  await clock.advance(3_000);
  for (const { ms, call } of ends) {
    const [heard, ...more] = call.heard;
    const lateMs = Number(heard!.split(' ')[1]) - 1_000 - ms;
    assert.ok(lateMs >= 0 && lateMs <= 20 && more.length === 0, `${ms}: ${call.heard}`);
  }
  assert.deepEqual(
    due.heard.map((text) => text.split(' ')[0]),
    ['due', 'due', 'expired'],
  );
  assert.equal(calls.size, 1);
});
