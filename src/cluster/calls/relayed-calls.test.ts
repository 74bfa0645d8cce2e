import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBus, TestExchange, wordOf } from '../../../test/support/cluster-bench.ts';
import { CuttableHub } from '../../../test/support/cuttable-wire.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { result } from '../../protocol/compose.ts';
import type { NodeView } from '../nodes/node-state.ts';
import { forwardedOptionsOf } from './call-contexts.ts';
import { RelayedCalls } from './relayed-calls.ts';
import { ServedExchange } from './served-exchange.ts';

const RESULT = answer(result('7', '{"ok":true}', 'stateful'));

/** A call that another node passed on, of a session. `over`: its caller has the outcome, or is gone. */
function passed(session: string | null = 's1') {
  const members = { callerLost: false, outlivesCaller: false, onEnd: null as (() => void) | null };
  const exchange = Object.assign(new TestExchange(session), members);
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const over = (callerLost: boolean): void => {
    exchange.callerLost = callerLost;
    exchange.onEnd?.();
  };
  return { exchange, served: exchange as unknown as ServedExchange, running: promise, end: resolve, over };
}

/** `peers`: the other nodes. */
function setUp() {
  const clock = new FakeClock();
  const hub = new CuttableHub();
  const bus = memoryBus(hub, clock);
  const peers: string[] = [];
  const others = () => peers.map((peer) => ({ peer }) as NodeView);
  return { clock, hub, bus, peers, left: new RelayedCalls({ bus, clock }, { others }) };
}

test('the outcome of a call whose node died is kept for five minutes, for its session and caller alone', async () => {
  const { clock, bus, left } = setUp();
  const { exchange, served, running, end, over } = passed();
  left.track('memory', served, running);
  assert.equal(exchange.outlivesCaller, true);
  over(true);
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

test('an outcome that was on its way to a node when it died is kept', async () => {
  const { clock, hub, bus, left } = setUp();
  const wire = hub.open();
  const caller = memoryBus({ open: () => wire } as CuttableHub, clock);
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  bus.serve('trunkline.calls', async (serving) => {
    const exchange = new TestExchange();
    const { id, request, client } = exchange;
    const served = new ServedExchange(serving, id, request, client, forwardedOptionsOf(exchange));
    left.track('memory', served, promise);
    await promise;
    serving.answer(Buffer.from('the answer'));
  });
  await settled();
  caller.call('trunkline.calls', Buffer.from('x'), { to: bus.peer, deadlineMs: 60_000 });
  await settled();
  await clock.advance(50);
  wire.die();
  resolve(RESULT);
  await settled();
  bus.peerLost(caller.peer, 'it is silent');
  await settled();
  const outcome = await left.outcomeOf('memory', new TestExchange());
  assert.equal(wordOf(outcome), '{"ok":true}');
  await Promise.all([bus.close(), caller.close()]);
});

test('an outcome that its node received is not kept, and a call without a session ends with its node', async () => {
  const { bus, left } = setUp();
  const { served, running, end, over } = passed();
  left.track('memory', served, running);
  end(RESULT);
  over(false);
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
  lost.over(true);
  for (const session of ['s1', 's2']) left.sessionEnded(session);
  assert.deepEqual([lost.exchange.cancelled, other.exchange.cancelled], ['the session was ended', null]);
  await bus.close();
});

test('kept outcomes have a total limit: the oldest are dropped, and an outcome larger than the limit is not kept', async () => {
  const { bus, clock, left } = setUp();
  const timers = clock.pending;
  const large = answer(result('7', JSON.stringify({ text: 'x'.repeat(1_000_000) }), 'stateful'));
  for (let at = 0; at < 40; at++) {
    const { served, running, end, over } = passed(`s${at}`);
    left.track('memory', served, running);
    over(true);
    end(large);
    await settled();
  }
  assert.ok(clock.pending - timers < 35, 'the dropped ones have no timers left');
  // A client that waits for an outcome beyond the limit gets it.
  const { served, running, end, over } = passed('s40');
  left.track('memory', served, running);
  over(true);
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

test('a node that cannot search for a call gives no outcome, and the error of a failed call is its outcome', async () => {
  const { clock, hub, bus, peers, left } = setUp();
  const [full, runs] = [memoryBus(hub, clock), memoryBus(hub, clock)];
  let error = new GatewayError('OVERLOADED', 'too many searches');
  full.serve('trunkline.left', (serving) => serving.fail(error));
  const there = new RelayedCalls({ bus: runs, clock }, { others: () => [] });
  const { served, running, end } = passed();
  there.track('memory', served, running);
  const textOf = async (...asked: string[]): Promise<string> => {
    peers.splice(0, peers.length, ...asked);
    const exchange: Exchange = new TestExchange();
    const outcome = left.outcomeOf('memory', exchange);
    await clock.advance(50);
    end(failure(new GatewayError('OVERLOADED', 'the server is full')));
    await settled();
    const found = await outcome;
    return `${exchange.found} ${found.kind === 'failure' ? found.error.message : found.kind}`;
  };
  assert.equal(await textOf(full.peer, runs.peer), 'true the server is full');
  assert.match(await textOf(full.peer), /^false .*how the call ended is unknown$/);
  // The reply of a node of an earlier version.
  error = new GatewayError('TIMEOUT', 'the server was silent');
  assert.equal(await textOf(full.peer), 'true the server was silent');
  await Promise.all([bus.close(), full.close(), runs.close()]);
});

test('a search for an outcome ends with the connection of its client', async () => {
  const { clock, hub, bus, peers, left } = setUp();
  const other = memoryBus(hub, clock);
  other.serve('trunkline.left', () => {});
  peers.push(other.peer);
  const exchange = new TestExchange();
  const outcome = left.outcomeOf('memory', exchange);
  await clock.advance(50);
  assert.equal(other.status.serving, 1);
  exchange.cancel('the client has gone');
  assert.equal(wordOf(await outcome), 'UNKNOWN');
  const late = new TestExchange();
  late.cancel('the client has gone');
  assert.equal(wordOf(await left.outcomeOf('memory', late)), 'UNKNOWN');
  await settled();
  assert.equal(other.status.serving, 0);
  await Promise.all([bus.close(), other.close()]);
});
