import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CuttableHub, type CuttableWire } from '../../../test/support/cuttable-wire.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Bus, BusOutcome } from '../bus.ts';
import { SignedBus } from '../signed-bus.ts';
import { subjectMatches } from '../subjects.ts';
import { KeyRing } from '../trust/key-ring.ts';
import type { Wire, WireMessage } from '../wire.ts';

const KEYS = new KeyRing(['a secret of the cluster, thirty-two bytes at least']);

function wordOf(outcome: BusOutcome): string {
  return outcome.kind === 'result' ? 'RESULT' : outcome.error.outcome;
}

class Bench {
  readonly clock = new FakeClock();
  readonly hub = new CuttableHub();
  readonly #open: Bus[] = [];

  bus(wire: Wire = this.hub.open()): Bus {
    const bus = new SignedBus({ wire, clock: this.clock, keys: KEYS, random: systemRandom, logger: Logger.silent() });
    this.#open.push(bus);
    return bus;
  }

  async close(): Promise<void> {
    for (const bus of this.#open) await bus.close();
  }
}

/** A wire that records the reply subjects of its messages; `say` delivers a no-responders message to its subscribers. */
function overheard(wire: CuttableWire): { readonly wire: Wire; say(subject: string): void; replies: string[] } {
  const subscribed: { readonly pattern: string; readonly deliver: (message: WireMessage) => void }[] = [];
  const replies: string[] = [];
  const own: Wire = Object.create(wire, {
    status: { get: () => wire.status },
    connected: { get: () => wire.connected },
    maxPayload: { get: () => wire.maxPayload },
    publish: {
      value: (...[subject, payload, reply]: Parameters<Wire['publish']>) => {
        if (reply !== undefined) replies.push(reply);
        wire.publish(subject, payload, reply);
      },
    },
    subscribe: {
      value: (...args: Parameters<Wire['subscribe']>) => {
        subscribed.push({ pattern: args[0], deliver: args[1] });
        return wire.subscribe(...args);
      },
    },
    onChange: { value: wire.onChange.bind(wire) },
    close: { value: () => wire.close() },
  });
  const say = (subject: string): void => {
    const message = { subject, payload: Buffer.alloc(0), reply: '', noResponders: true, header: () => null };
    for (const { pattern, deliver } of subscribed) if (subjectMatches(pattern, subject)) deliver(message);
  };
  return { wire: own, say, replies };
}

test('fault:F28 a call that has not left when the connection is lost is NOT_SENT; one that has is UNKNOWN', async () => {
  const bench = new Bench();
  const wire = bench.hub.open();
  const [a, b] = [bench.bus(wire), bench.bus()];
  const subject = 'trunkline.echo';
  b.serve(subject, (serving) => serving.answer(serving.payload));
  await settled();
  const call = (): Promise<BusOutcome> => a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: 60_000 }).outcome;
  // Calls wait for the end of the turn.
  assert.equal(wordOf(await call()), 'RESULT');
  const [long, waiting] = [a.call(subject, Buffer.alloc(200_000), { to: b.peer, deadlineMs: 60_000 }).outcome, call()];
  wire.cut();
  assert.equal(wordOf(await waiting), 'NOT_SENT');
  // A call that is too long for a bundle was sent at once.
  assert.equal(wordOf(await long), 'UNKNOWN');
  wire.restore();
  assert.equal(wordOf(await call()), 'RESULT');
  await bench.close();
});

test('fault:F28 a call that is cancelled without a connection is cancelled at its node after the reconnect, with the reason', async () => {
  const bench = new Bench();
  const wire = bench.hub.open();
  const [a, b] = [bench.bus(wire), bench.bus()];
  const cancelled: string[] = [];
  b.serve('trunkline.slow', (serving) => {
    serving.onCancel = (reason) => void cancelled.push(reason);
  });
  await settled();
  const call = a.call('trunkline.slow', Buffer.from('x'), { to: b.peer, deadlineMs: 60_000 });
  await settled();
  await bench.clock.advance(50);
  assert.equal(call.accepted, true);
  wire.cut();
  call.cancel('the client gave it up');
  await bench.clock.advance(500);
  assert.deepEqual(cancelled, []);
  wire.restore();
  await settled();
  assert.deepEqual([cancelled, b.status.serving], [['the client gave it up'], 0]);
  await bench.close();
});

test('check:H3 only the messaging system can report that no node serves a call', async () => {
  const bench = new Bench();
  const { wire, say, replies } = overheard(bench.hub.open());
  const [a, b] = [bench.bus(wire), bench.bus()];
  const subject = 'trunkline.slow';
  const ended = Promise.withResolvers<void>();
  b.serve(subject, async (serving) => {
    await ended.promise;
    serving.answer(serving.payload);
  });
  await settled();
  const running = a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: 60_000 });
  await settled();
  // Any client that may publish on the subjects of nodes can send this.
  say(`trunkline.call.${a.peer}`);
  assert.equal(a.status.refused, 1);
  ended.resolve();
  assert.equal(wordOf(await running.outcome), 'RESULT');
  const nowhere = a.call('trunkline.nobody', Buffer.from('x'), { to: '0123456789abcdef', deadlineMs: 60_000 });
  assert.equal(wordOf(await nowhere.outcome), 'NOT_SENT');
  assert.match(replies.at(-1)!, new RegExp(`^trunkline\\.unheard\\.${a.peer}\\.b\\.`));
  await bench.close();
});

test('a stalled node reads arrived messages before it ends its calls', async () => {
  const bench = new Bench();
  const [a, b] = [bench.bus(), bench.bus()];
  const answer = Promise.withResolvers<void>();
  b.serve('trunkline.slow', async (serving) => {
    await answer.promise;
    serving.answer(serving.payload);
  });
  await settled();
  const call = a.call('trunkline.slow', Buffer.from('x'), { to: b.peer, deadlineMs: 60_000 });
  // The process is stalled: its timer then runs before it reads messages that arrived meanwhile.
  bench.clock.skip(10_000);
  await bench.clock.advance(2_000);
  answer.resolve();
  assert.equal(wordOf(await call.outcome), 'RESULT');
  await bench.close();
});

test('a call whose node was stalled for longer than its idle timeout gets the answer that has arrived', async () => {
  const bench = new Bench();
  const [a, b] = [bench.bus(), bench.bus()];
  const answer = Promise.withResolvers<void>();
  b.serve('trunkline.slow', async (serving) => {
    await answer.promise;
    serving.answer(serving.payload);
  });
  await settled();
  const call = a.call('trunkline.slow', Buffer.from('x'), { to: b.peer, deadlineMs: 60_000, idleTimeoutMs: 5_000 });
  await settled();
  await bench.clock.advance(50);
  assert.equal(call.accepted, true);
  bench.clock.skip(10_000);
  // The timers that fell due run, and then the answer is read.
  await bench.clock.advance(0);
  answer.resolve();
  assert.equal(wordOf(await call.outcome), 'RESULT');
  await bench.close();
});
