import assert from 'node:assert/strict';
import type { BusEvent } from '../../src/bus/bus.ts';
import {
  DEADLINE_MS,
  eventually,
  failure,
  hanging,
  MIB,
  patterned,
  result,
  type Scenario,
  serveEcho,
} from './bus-bench.ts';

/** Publications, slow consumers, and outages. */
export function flowContract(scenario: Scenario): void {
  scenario(
    'a publication without a subscriber succeeds, and one to many reaches each in order',
    async (bench, a, b) => {
      a.publish('trunkline.news.none', Buffer.from('x'));
      await bench.settle();
      const heard: string[][] = [[], [], []];
      b.subscribe('trunkline.news.*', (payload, from, subject) => {
        heard[0]!.push(`${from} ${subject} ${payload.toString()}`);
      });
      a.subscribe('trunkline.>', (payload) => void heard[1]!.push(payload.toString()));
      b.subscribe('trunkline.news.one', () => {
        throw new Error('for the test');
      });
      b.subscribe('trunkline.news.one', (payload) => void heard[2]!.push(payload.toString()));
      await bench.settle();
      const all = Array.from({ length: 200 }, (_, at) => `${at}`);
      for (const text of all) a.publish('trunkline.news.one', Buffer.from(text));
      await eventually(bench, () => heard.every((texts) => texts.length >= 200));
      assert.deepEqual(
        heard[0],
        all.map((text) => `${a.peer} trunkline.news.one ${text}`),
      );
      assert.deepEqual(heard[1], all);
      assert.deepEqual(heard[2], all);
      assert.throws(() => a.publish('trunkline.news.one', Buffer.alloc(MIB)), { code: 'TOO_LARGE' });
    },
  );

  scenario('a caller that pauses makes its server wait, and then gets everything', async (bench, a, b) => {
    const { serving, call, emitted } = await hanging(bench, a, b);
    call.pause();
    let drained = 0;
    serving.onDrain = () => drained++;
    let count = 0;
    const chunk = patterned(100_000);
    while (serving.emit([Buffer.from(`${count} `), chunk])) {
      count++;
      assert.ok(count < 200, 'emit never returns false');
      if (count % 8 === 0) await bench.settle();
    }
    await bench.settle();
    assert.equal(emitted.length, 0);
    assert.equal(drained, 0);
    call.resume();
    await eventually(bench, () => emitted.length === count + 1 && drained === 1);
    for (const [at, payload] of emitted.entries()) {
      assert.ok(payload.equals(Buffer.concat([Buffer.from(`${at} `), chunk])));
    }
    serving.answer(Buffer.from('done'));
    assert.equal(result(await call.outcome).toString(), 'done');
  });

  scenario('a call that ends while it is paused passes nothing on afterwards', async (bench, a, b) => {
    const { serving, call, emitted } = await hanging(bench, a, b);
    call.pause();
    serving.emit(Buffer.from('one'));
    serving.emit(Buffer.from('two'));
    await bench.settle();
    call.cancel('for the test');
    assert.equal(failure(await call.outcome).code, 'CANCELLED');
    call.resume();
    await bench.settle();
    assert.deepEqual(emitted, []);
  });

  scenario('a server that ignores the limit loses its call, and that is reported', async (bench, a, b) => {
    const events: BusEvent[] = [];
    b.onEvent((event) => events.push(event));
    const { serving, call } = await hanging(bench, a, b);
    call.pause();
    for (let at = 0; at < 200 && serving.cancelled === null; at++) serving.emit(patterned(100_000));
    assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
    assert.ok(serving.cancelled !== null);
    assert.equal(events.filter(({ type }) => type === 'slow_consumer').length, 1);
    assert.equal(b.status.slowConsumers, 1);
    await eventually(bench, () => a.status.calls === 0 && b.status.serving === 0);
  });

  scenario('a call in flight survives a short outage of either end', async (bench, a, b) => {
    const events: BusEvent[] = [];
    b.onEvent((event) => events.push(event));
    const { serving, call, emitted } = await hanging(bench, a, b);
    await bench.cut(b);
    serving.emit(Buffer.from('one'));
    await bench.restore(b);
    await eventually(bench, () => emitted.length === 1);
    await bench.cut(a);
    serving.emit(Buffer.from('two'));
    serving.emit(patterned(MIB));
    serving.answer(patterned(2 * MIB));
    await bench.settle();
    await bench.restore(a);
    assert.ok(result(await call.outcome).equals(patterned(2 * MIB)));
    assert.deepEqual(
      emitted.map((payload) => payload.length),
      [3, 3, MIB],
    );
    await eventually(bench, () => b.status.serving === 0);
    assert.deepEqual(
      events.map(({ type }) => type),
      ['disconnected', 'connected'],
    );
    assert.deepEqual(events[1], { type: 'connected', resync: true });
    assert.equal(b.status.reconnects, 1);
  });

  scenario('in an outage calls are NOT_SENT and publications are dropped', async (bench, a, b) => {
    const subject = serveEcho(b);
    const heard: string[] = [];
    b.subscribe('trunkline.news', (payload) => void heard.push(payload.toString()));
    await bench.settle();
    assert.equal(a.connected, true);
    await bench.cut(a);
    assert.deepEqual([a.status.state, a.connected, b.connected], ['disconnected', false, true]);
    const { outcome } = a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS });
    assert.equal(failure(await outcome).outcome, 'NOT_SENT');
    a.publish('trunkline.news', Buffer.from('lost'));
    await bench.restore(a);
    assert.equal(a.connected, true);
    a.publish('trunkline.news', Buffer.from('heard'));
    await eventually(bench, () => heard.length === 1);
    assert.deepEqual(heard, ['heard']);
    assert.ok(result(await a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome));
  });

  scenario('a longer outage ends the calls in flight', async (bench, a, b) => {
    const { serving, call } = await hanging(bench, a, b);
    await bench.cut(a);
    await bench.clock.advance(1_500);
    assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
    await bench.restore(a);
    for (let second = 0; second < 20 && serving.cancelled === null; second++) {
      await bench.settle();
      await bench.clock.advance(1_000);
    }
    assert.equal(serving.cancelled, 'the bus has lost its connection');
  });
}
