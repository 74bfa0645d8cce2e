import assert from 'node:assert/strict';
import type { BusEvent, BusServing } from '../../src/bus/bus.ts';
import {
  DEADLINE_MS,
  eventually,
  failure,
  OTHER_SECRET,
  patterned,
  result,
  type Scenario,
  SECRET,
} from './bus-bench.ts';

/** Which messages a bus accepts. */
export function trustContract(scenario: Scenario): void {
  scenario('messages without a signature of this cluster are dropped and counted', async (bench, a, b) => {
    const stranger = await bench.join([OTHER_SECRET]);
    const events: BusEvent[] = [];
    b.onEvent((event) => events.push(event));
    let served = 0;
    b.serve('trunkline.guarded', (serving) => {
      served++;
      serving.answer(Buffer.from('yes'));
    });
    b.subscribe('trunkline.news', () => void served++);
    await bench.settle();
    const call = stranger.call('trunkline.guarded', Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS });
    stranger.publish('trunkline.news', Buffer.from('x'));
    for (const junk of [Buffer.alloc(0), Buffer.from('{"tool":"x"}'), patterned(57), patterned(600)]) {
      bench.intrude('trunkline.news', junk);
      bench.intrude(`trunkline.call.${b.peer}`, junk);
    }
    await eventually(bench, () => b.status.refused >= 10);
    assert.equal(events.filter(({ type }) => type === 'refused').length, 1, 'reported at most once a second');
    await bench.clock.advance(1_500);
    assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
    assert.equal(served, 0);
    assert.equal(
      result(
        await a.call('trunkline.guarded', Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome,
      ).toString(),
      'yes',
    );
  });

  scenario('recorded messages that are sent again have no effect, altered or not', async (bench, a, b) => {
    let served = 0;
    const serve = (serving: BusServing): void => {
      served++;
      serving.answer(Buffer.from('done'));
    };
    b.serve('trunkline.ledger', serve);
    b.serve('trunkline.other', serve);
    const recorded = await bench.overhear('trunkline.>');
    await bench.settle();
    for (const _ of [1, 2]) {
      result(await a.call('trunkline.ledger', Buffer.from('pay'), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome);
    }
    await eventually(bench, () => recorded.length >= 4);
    assert.equal(served, 2);
    // A process that has just started and has seen none of it.
    const c = await bench.join();
    c.serve('trunkline.ledger', serve);
    await bench.settle();
    for (const { subject: where, payload } of [...recorded]) {
      bench.intrude(where, payload);
      bench.intrude(where.replace(b.peer, c.peer), payload);
      bench.intrude(`trunkline.other.${b.peer}`, payload);
      const changed = Buffer.from(payload);
      changed[changed.length - 1]! ^= 1;
      bench.intrude(where, changed);
    }
    await bench.settle();
    await bench.settle();
    assert.equal(served, 2);
    // Later every peer rejects the messages as too old.
    await bench.clock.advance(60_001);
    const d = await bench.join();
    d.subscribe('trunkline.ledger.>', () => void served++);
    await bench.settle();
    for (const { subject: where, payload } of [...recorded]) bench.intrude(where, payload);
    await bench.settle();
    assert.equal(served, 2);
  });

  scenario('the secret changes without a moment in which nodes refuse each other', async (bench, a) => {
    const both = await bench.join([SECRET, OTHER_SECRET]);
    const next = await bench.join([OTHER_SECRET, SECRET]);
    const done = await bench.join([OTHER_SECRET]);
    for (const [caller, server] of [
      [a, both],
      [both, a],
      [both, next],
      [next, both],
      [next, done],
      [done, next],
    ] as const) {
      const subject = `trunkline.rotated.${caller.peer}`;
      server.serve(subject, (serving) => serving.answer(serving.payload));
      await bench.settle();
      const { outcome } = caller.call(subject, Buffer.from('x'), { to: server.peer, deadlineMs: DEADLINE_MS });
      assert.equal(result(await outcome).toString(), 'x');
    }
  });
}
