import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBus, TestExchange } from '../../../test/support/cluster-bench.ts';
import { CuttableHub } from '../../../test/support/cuttable-wire.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { Outcome } from '../../model/outcome.ts';
import { answer } from '../../model/outcome.ts';
import { result } from '../../protocol/compose.ts';
import { RelayedCalls } from './relayed-calls.ts';
import type { ServedExchange } from './served-exchange.ts';

const RESULT = answer(result('7', '{"ok":true}', 'stateful'));

/** A call that another node passed on, of a session. */
function passed(session: string | null = 's1') {
  const exchange = Object.assign(new TestExchange(session), { callerLost: false, outlivesCaller: false });
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  return { exchange, served: exchange as unknown as ServedExchange, running: promise, end: resolve };
}

function setUp() {
  const clock = new FakeClock();
  const bus = memoryBus(new CuttableHub(), clock);
  return { clock, bus, left: new RelayedCalls({ bus, clock }, { others: () => [] }) };
}

test('the outcome of a call whose node died is kept for five minutes, for its session and caller alone', async () => {
  const { clock, bus, left } = setUp();
  const { exchange, served, running, end } = passed();
  left.track('memory', served, running);
  assert.equal(exchange.outlivesCaller, true);
  exchange.callerLost = true;
  end(RESULT);
  await settled();
  const word = async (server: string, session: string) =>
    (await left.outcomeOf(server, new TestExchange(session))).kind;
  assert.deepEqual(
    [await word('memory', 's1'), await word('memory', 's2'), await word('other', 's1')],
    ['answer', 'failure', 'failure'],
  );
  await clock.advance(300_000);
  assert.equal(await word('memory', 's1'), 'failure');
  await bus.close();
});

test('what its node was answered is not kept, and a call without a session ends with its node', async () => {
  const { bus, left } = setUp();
  const { served, running, end } = passed();
  left.track('memory', served, running);
  end(RESULT);
  await settled();
  assert.equal((await left.outcomeOf('memory', new TestExchange())).kind, 'failure');
  const alone = passed(null);
  left.track('memory', alone.served, alone.running);
  assert.equal(alone.exchange.outlivesCaller, false);
  await bus.close();
});

test('a call that goes on without its node ends with its session, one whose node lives is not touched', async () => {
  const { bus, left } = setUp();
  const [lost, other] = [passed('s1'), passed('s2')];
  for (const { served, running } of [lost, other]) left.track('memory', served, running);
  lost.exchange.callerLost = true;
  for (const session of ['s1', 's2']) left.sessionEnded(session);
  assert.deepEqual([lost.exchange.cancelled, other.exchange.cancelled], ['the session was ended', null]);
  await bus.close();
});

test('outcomes of calls that are kept have a limit in all, the oldest are dropped, and one beyond the limit is not kept', async () => {
  const { bus, clock, left } = setUp();
  const timers = clock.pending;
  const large = answer(result('7', JSON.stringify({ text: 'x'.repeat(1_000_000) }), 'stateful'));
  for (let at = 0; at < 40; at++) {
    const { exchange, served, running, end } = passed(`s${at}`);
    left.track('memory', served, running);
    exchange.callerLost = true;
    end(large);
    await settled();
  }
  assert.ok(clock.pending - timers < 35, 'nothing holds those that were dropped');
  // The client that waits for it gets it.
  const { exchange, served, running, end } = passed('s40');
  left.track('memory', served, running);
  exchange.callerLost = true;
  const waiting = left.outcomeOf('memory', new TestExchange('s40'));
  end(answer(result('7', JSON.stringify({ text: 'x'.repeat(33 * 1024 * 1024) }), 'stateful')));
  assert.equal((await waiting).kind, 'answer');
  const kept = async (at: number) => (await left.outcomeOf('memory', new TestExchange(`s${at}`))).kind === 'answer';
  assert.deepEqual(
    [await kept(0), await kept(6), await kept(10), await kept(39), await kept(40)],
    [false, false, true, true, false],
  );
  await bus.close();
});
