import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FakeClock } from '../../test/support/fake-clock.ts';
import type { ErrorCode } from '../model/error-catalogue.ts';
import { GatewayError, type GatewayErrorOptions } from '../model/gateway-error.ts';
import type { Bus, BusEvent, BusOutcome, BusServing } from './bus.ts';

export interface BusHarness {
  /** Shown in the titles. */
  readonly name: string;
  start(): Promise<BusBench>;
}

/** A messaging system with peers on it; all have the clock of the test, which stands still until told. */
export interface BusBench {
  readonly clock: FakeClock;
  /** Connected when it resolves. All peers know the same secret unless they are given others. */
  join(secrets?: readonly string[]): Promise<Bus>;
  /** Takes away a peer's connection; `restore` gives it back. Both resolve when the peer knows. */
  cut(bus: Bus): Promise<void>;
  restore(bus: Bus): Promise<void>;
  /** Publishes bytes past every bus, as somebody with access to the messaging system could. */
  intrude(subject: string, payload: Buffer): void;
  /** Everything that is published under a subject from now on, as somebody who listens could record it. */
  overhear(subject: string): Promise<readonly { readonly subject: string; readonly payload: Buffer }[]>;
  /** Resolves when everything published so far by anybody has been delivered. */
  settle(): Promise<void>;
  dispose(): Promise<void>;
}

export const SECRET = 'a secret of the cluster, thirty-two bytes at least';
const OTHER_SECRET = 'another secret, of thirty-two bytes or more as well';
const MIB = 1024 * 1024;
const DEADLINE_MS = 60_000;

/** What every `Bus` promises, whatever it stands on (S0.21). */
export function busContract(harness: BusHarness): void {
  describe(`bus contract: ${harness.name}`, () => {
    function scenario(title: string, run: (bench: BusBench, a: Bus, b: Bus) => Promise<void>): void {
      test(`S0.21 check:H3 [${harness.name}] ${title}`, { timeout: 60_000 }, async () => {
        const bench = await harness.start();
        try {
          await run(bench, await bench.join(), await bench.join());
        } finally {
          await bench.dispose();
        }
      });
    }

    const serveEcho = (bus: Bus): string => {
      const subject = `trunkline.echo.${bus.peer}`;
      bus.serve(subject, (serving) => serving.answer(serving.payload));
      return subject;
    };

    scenario('a call goes there and back byte for byte, whatever its size', async (bench, a, b) => {
      const subject = serveEcho(b);
      await bench.settle();
      const odd = Buffer.from([0, 255, 13, 10, 0, 128]);
      for (const payload of [Buffer.alloc(0), odd, patterned(512 * 1024), patterned(3 * MIB + 17)]) {
        const { outcome } = a.call(subject, payload, { to: b.peer, deadlineMs: DEADLINE_MS });
        assert.ok(result(await outcome).equals(payload), `${payload.length} bytes`);
      }
      const pieces = [patterned(700_000), Buffer.alloc(0), patterned(5), patterned(700_000)];
      const call = a.call(subject, pieces, { to: b.peer, deadlineMs: DEADLINE_MS });
      // The memory is the caller's again.
      const whole = Buffer.concat(pieces);
      for (const piece of pieces) piece.fill(7);
      assert.ok(result(await call.outcome).equals(whole));
      await eventually(bench, () => a.status.calls === 0 && b.status.serving === 0);
    });

    scenario('a peer calls itself', async (bench, a) => {
      const subject = serveEcho(a);
      await bench.settle();
      const payload = patterned(MIB);
      const { outcome } = a.call(subject, payload, { to: a.peer, deadlineMs: DEADLINE_MS });
      assert.ok(result(await outcome).equals(payload));
    });

    scenario('a call that nobody serves is NOT_SENT, without a wait', async (_bench, a) => {
      for (const to of ['0123456789abcdef', null]) {
        const { outcome } = a.call('trunkline.nobody', Buffer.from('x'), { to, deadlineMs: DEADLINE_MS });
        assert.equal(failure(await outcome).outcome, 'NOT_SENT');
      }
    });

    scenario('what is emitted and asked meanwhile goes both ways, in order', async (bench, a, b) => {
      const subject = `trunkline.asking.${b.peer}`;
      b.serve(subject, async (serving) => {
        for (let at = 0; at < 300; at++) serving.emit(Buffer.from(`step ${at}`));
        const answers = await Promise.all([
          serving.ask(Buffer.from('name?')),
          serving.ask(patterned(2 * MIB)),
          serving.ask(Buffer.from('refuse')).catch((error: GatewayError) => Buffer.from(error.code)),
        ]);
        serving.emit([Buffer.from('last '), Buffer.from('step')]);
        serving.answer(answers);
      });
      await bench.settle();
      const emitted: string[] = [];
      const call = a.call(subject, Buffer.alloc(0), {
        to: b.peer,
        deadlineMs: DEADLINE_MS,
        onEmit: (payload) => emitted.push(payload.toString()),
        onAsk: async (payload) => {
          if (payload.length === 6) throw failed('METHOD_NOT_FOUND');
          return payload.length === 5 ? Buffer.from('Ada') : Buffer.from(`${payload.length}`);
        },
      });
      assert.equal(result(await call.outcome).toString(), `Ada${2 * MIB}METHOD_NOT_FOUND`);
      assert.equal(call.takenBy, b.peer);
      assert.deepEqual(emitted, [...Array.from({ length: 300 }, (_, at) => `step ${at}`), 'last step']);
    });

    scenario('a caller that takes no questions is not asked', async (bench, a, b) => {
      const subject = `trunkline.asking.${b.peer}`;
      b.serve(subject, async (serving) => serving.answer(await serving.ask(Buffer.from('?'))));
      await bench.settle();
      const { outcome } = a.call(subject, Buffer.alloc(0), { to: b.peer, deadlineMs: DEADLINE_MS });
      assert.equal(failure(await outcome).code, 'METHOD_NOT_FOUND');
    });

    scenario('a cancelled call ends at once, and its server hears why', async (bench, a, b) => {
      const { serving, call } = await hanging(bench, a, b);
      call.cancel('the client left');
      const error = failure(await call.outcome);
      assert.equal(error.code, 'CANCELLED');
      assert.equal(error.outcome, 'UNKNOWN');
      await eventually(bench, () => serving.cancelled !== null);
      assert.equal(serving.cancelled, 'the client left');
      assert.deepEqual(reasons.get(serving), ['the client left']);
      serving.answer(Buffer.from('too late'));
      await bench.settle();
      assert.equal(b.status.serving, 0);
    });

    scenario('the deadline of the caller holds at both ends', async (bench, a, b) => {
      const { serving, call } = await hanging(bench, a, b, 5_000);
      assert.equal(serving.deadlineMs, 5_000);
      await bench.clock.advance(5_000);
      const error = failure(await call.outcome);
      assert.equal(error.code, 'TIMEOUT');
      assert.equal(error.outcome, 'UNKNOWN');
      await eventually(bench, () => serving.cancelled !== null);
      assert.equal(reasons.get(serving)?.length, 1);
    });

    scenario('a call that nobody takes in time ends: UNKNOWN if its server may have it', async (bench, a, b) => {
      const subject = `trunkline.deaf.${b.peer}`;
      const queue = 'trunkline.deaf.any';
      await bench.overhear(subject);
      await bench.overhear(queue);
      await bench.settle();
      const direct = a.call(subject, Buffer.alloc(0), { to: b.peer, deadlineMs: DEADLINE_MS });
      const any = a.call(queue, Buffer.alloc(0), { to: null, deadlineMs: DEADLINE_MS });
      await bench.settle();
      await bench.clock.advance(1_500);
      assert.equal(failure(await direct.outcome).outcome, 'UNKNOWN');
      assert.equal(failure(await any.outcome).outcome, 'NOT_SENT');
    });

    scenario('failures keep their word, their code and what else is known of them', async (bench, a, b) => {
      const subject = `trunkline.failing.${b.peer}`;
      b.serve(subject, (serving) =>
        serving.fail(failed('OVERLOADED', { retryAfterMs: 250, server: 'memory', attempts: 2, forCallers: 'later' })),
      );
      b.serve(`${subject}.throws`, () => {
        throw new Error('a defect');
      });
      b.serve(`${subject}.rejects`, async () => {
        throw failed('NOT_SENT');
      });
      b.serve(`${subject}.forgets`, async () => {});
      await bench.settle();
      const ended = async (tail: string): Promise<GatewayError> =>
        failure(await a.call(`${subject}${tail}`, Buffer.alloc(0), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome);
      const error = await ended('');
      assert.equal(error.code, 'OVERLOADED');
      assert.equal(error.forCallers, 'later');
      assert.deepEqual(error.data, {
        outcome: 'REFUSED',
        sent: false,
        retryable: true,
        retryAfterMs: 250,
        server: 'memory',
        attempts: 2,
      });
      assert.equal((await ended('.throws')).code, 'INTERNAL');
      assert.equal((await ended('.rejects')).outcome, 'NOT_SENT');
      assert.equal((await ended('.forgets')).outcome, 'UNKNOWN');
    });

    scenario('one member of a queue group gets each call, and all members get some', async (bench, a, b) => {
      const c = await bench.join();
      const counts = new Map<Bus, number>();
      const registrations = [b, c].map((bus) =>
        bus.serve(
          'trunkline.group',
          (serving) => {
            counts.set(bus, (counts.get(bus) ?? 0) + 1);
            serving.answer(Buffer.concat([Buffer.from(`${bus.peer} `), serving.payload]));
          },
          { queue: 'workers' },
        ),
      );
      await bench.settle();
      for (let at = 0; at < 40; at++) {
        const payload = at === 7 ? patterned(2 * MIB) : Buffer.from(`${at}`);
        const call = a.call('trunkline.group', payload, { to: null, deadlineMs: DEADLINE_MS });
        const answer = result(await call.outcome);
        assert.ok(answer.subarray(17).equals(payload));
        assert.equal(call.takenBy, answer.toString('latin1', 0, 16));
      }
      assert.equal(
        [...counts.values()].reduce((sum, count) => sum + count, 0),
        40,
      );
      assert.ok((counts.get(b) ?? 0) > 0 && (counts.get(c) ?? 0) > 0);
      registrations[0]!.close();
      await bench.settle();
      const before = counts.get(b);
      for (let at = 0; at < 10; at++) {
        result(await a.call('trunkline.group', Buffer.alloc(0), { to: null, deadlineMs: DEADLINE_MS }).outcome);
      }
      assert.equal(counts.get(b), before);
    });

    scenario('more calls at once than a subject takes are REFUSED', async (bench, a, b) => {
      const subject = `trunkline.narrow.${b.peer}`;
      const held: BusServing[] = [];
      b.serve(subject, (serving) => void held.push(serving), { concurrency: 2 });
      await bench.settle();
      const calls = [1, 2, 3].map(() => a.call(subject, Buffer.alloc(0), { to: b.peer, deadlineMs: DEADLINE_MS }));
      assert.equal(failure(await calls[2]!.outcome).code, 'OVERLOADED');
      for (const serving of held) serving.answer(Buffer.from('ok'));
      for (const call of calls.slice(0, 2)) result(await call.outcome);
      result(
        await Promise.race([
          a.call(subject, Buffer.alloc(0), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome,
          eventually(bench, () => held.length === 3).then(() => {
            held[2]!.answer(Buffer.from('ok'));
            return new Promise<never>(() => {});
          }),
        ]),
      );
    });

    scenario('a publication to nobody is fine, and one to many reaches each in order', async (bench, a, b) => {
      a.publish('trunkline.news.none', Buffer.from('x'));
      const heard: string[][] = [[], [], []];
      b.subscribe('trunkline.news.*', (payload, from, subject) => {
        heard[0]!.push(`${from} ${subject} ${payload.toString()}`);
      });
      a.subscribe('trunkline.>', (payload) => void heard[1]!.push(payload.toString()));
      b.subscribe('trunkline.news.one', async (payload) => {
        await Promise.resolve();
        heard[2]!.push(payload.toString());
      });
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
    });

    scenario('one subscriber of a queue group gets a publication', async (bench, a, b) => {
      const c = await bench.join();
      let count = 0;
      for (const bus of [b, c]) bus.subscribe('trunkline.job', () => void count++, { queue: 'q' });
      let all = 0;
      c.subscribe('trunkline.job', () => void all++);
      await bench.settle();
      for (let at = 0; at < 20; at++) a.publish('trunkline.job', Buffer.from(`${at}`));
      await eventually(bench, () => all === 20);
      await bench.settle();
      assert.equal(count, 20);
    });

    scenario('a slow subscriber loses what waits, is reported, and is in nobody’s way', async (bench, a, b) => {
      const events: BusEvent[] = [];
      b.onEvent((event) => events.push(event));
      let release = (): void => {};
      const stuck = new Promise<void>((resolve) => {
        release = resolve;
      });
      let dropped = 0;
      let slow = 0;
      let quick = 0;
      b.subscribe(
        'trunkline.flood',
        async () => {
          slow++;
          await stuck;
        },
        { onDropped: (count) => (dropped += count) },
      );
      b.subscribe('trunkline.flood', () => void quick++);
      await bench.settle();
      for (let at = 0; at < 1_500; at++) a.publish('trunkline.flood', Buffer.from(`${at}`));
      await eventually(bench, () => quick === 1_500);
      assert.equal(slow, 1);
      assert.equal(dropped, 1_025);
      assert.deepEqual(
        events.filter(({ type }) => type === 'slow_consumer'),
        [{ type: 'slow_consumer', subject: 'trunkline.flood', dropped: 1_025 }],
      );
      release();
      await eventually(bench, () => slow === 1_500 - 1_025);
      assert.equal(b.status.slowConsumers, 1);
    });

    scenario('a caller that pauses makes its server wait, and then gets everything', async (bench, a, b) => {
      const { serving, call, emitted } = await hanging(bench, a, b);
      call.pause();
      let drained = 0;
      serving.onDrain = () => drained++;
      let count = 0;
      const chunk = patterned(100_000);
      while (serving.emit([Buffer.from(`${count} `), chunk])) {
        count++;
        assert.ok(count < 200, 'the server is never told to wait');
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

    scenario('a server that goes on regardless has its call cut, and that is reported', async (bench, a, b) => {
      const events: BusEvent[] = [];
      b.onEvent((event) => events.push(event));
      const { serving, call } = await hanging(bench, a, b);
      call.pause();
      for (let at = 0; at < 200 && serving.cancelled === null; at++) serving.emit(patterned(100_000));
      assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
      assert.ok(serving.cancelled !== null);
      assert.equal(events.filter(({ type }) => type === 'slow_consumer').length, 1);
      await eventually(bench, () => a.status.calls === 0 && b.status.serving === 0);
    });

    scenario('what a peer that is gone had in hand ends at once', async (bench, a, b) => {
      const { serving, call } = await hanging(bench, a, b);
      const other = await hanging(bench, b, a);
      a.peerLost(b.peer, 'no heartbeat');
      const error = failure(await call.outcome);
      assert.equal(error.outcome, 'UNKNOWN');
      assert.equal(error.message, 'no heartbeat');
      assert.equal(other.serving.cancelled, 'no heartbeat');
      await eventually(bench, () => serving.cancelled !== null);
    });

    scenario('a call under way lives through a short outage of either end', async (bench, a, b) => {
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
      await bench.cut(a);
      assert.equal(a.status.state, 'disconnected');
      const { outcome } = a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS });
      assert.equal(failure(await outcome).outcome, 'NOT_SENT');
      a.publish('trunkline.news', Buffer.from('lost'));
      await bench.restore(a);
      a.publish('trunkline.news', Buffer.from('heard'));
      await eventually(bench, () => heard.length === 1);
      assert.deepEqual(heard, ['heard']);
      assert.ok(result(await a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome));
    });

    scenario('a longer outage ends the calls that are under way', async (bench, a, b) => {
      const { serving, call } = await hanging(bench, a, b);
      await bench.cut(a);
      await bench.clock.advance(1_500);
      assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
      await bench.restore(a);
      // The server tries to tell the caller of something and learns that there is none any more.
      serving.emit(Buffer.from('x'));
      await eventually(bench, () => serving.cancelled !== null);
    });

    scenario('what is not signed by this cluster reaches nobody, and is counted', async (bench, a, b) => {
      const stranger = await bench.join([OTHER_SECRET]);
      const events: BusEvent[] = [];
      b.onEvent((event) => events.push(event));
      const subject = `trunkline.guarded.${b.peer}`;
      let served = 0;
      b.serve(subject, (serving) => {
        served++;
        serving.answer(Buffer.from('yes'));
      });
      b.subscribe('trunkline.news', () => void served++);
      await bench.settle();
      const call = stranger.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS });
      stranger.publish('trunkline.news', Buffer.from('x'));
      for (const junk of [Buffer.alloc(0), Buffer.from('{"tool":"x"}'), patterned(57), patterned(600)]) {
        bench.intrude(subject, junk);
        bench.intrude('trunkline.news', junk);
        bench.intrude(`trunkline.call.${b.peer}.s.0000000000000000`, junk);
      }
      await eventually(bench, () => b.status.refused >= 14);
      assert.equal(events.filter(({ type }) => type === 'refused').length, 1, 'told of at most once a second');
      await bench.clock.advance(1_500);
      assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
      assert.equal(served, 0);
      assert.equal(
        result(await a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome).toString(),
        'yes',
      );
    });

    scenario('what was recorded and is sent again does nothing, changed even less', async (bench, a, b) => {
      const subject = `trunkline.ledger.${b.peer}`;
      let served = 0;
      b.serve(subject, (serving) => {
        served++;
        serving.answer(Buffer.from('done'));
      });
      b.serve(`${subject}.other`, () => void served++);
      const group = (bus: Bus): void => {
        const serve = (serving: BusServing): void => {
          served++;
          serving.answer(Buffer.from('done'));
        };
        bus.serve('trunkline.ledger.any', serve, { queue: 'q' });
      };
      group(b);
      const recorded = await bench.overhear('trunkline.>');
      await bench.settle();
      result(await a.call(subject, Buffer.from('pay'), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome);
      result(await a.call('trunkline.ledger.any', Buffer.from('pay'), { to: null, deadlineMs: DEADLINE_MS }).outcome);
      await eventually(bench, () => recorded.length >= 6);
      assert.equal(served, 2);
      // A member of the group that has seen none of it, and a process that has just started.
      const c = await bench.join();
      group(c);
      await bench.settle();
      for (const { subject: where, payload } of [...recorded]) {
        bench.intrude(where, payload);
        bench.intrude(`${subject}.other`, payload);
        const changed = Buffer.from(payload);
        changed[changed.length - 1]! ^= 1;
        bench.intrude(where, changed);
      }
      await bench.settle();
      await bench.settle();
      assert.equal(served, 2);
      // Later it is too old for anybody.
      await bench.clock.advance(60_001);
      const d = await bench.join();
      d.subscribe('trunkline.ledger.>', () => void served++);
      await bench.settle();
      for (const { subject: where, payload } of [...recorded]) bench.intrude(where, payload);
      await bench.settle();
      assert.equal(served, 2);
    });

    scenario('a secret is changed without a moment in which nodes do not understand each other', async (bench, a) => {
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
        const subject = `trunkline.rotated.${server.peer}.${caller.peer}`;
        server.serve(subject, (serving) => serving.answer(serving.payload));
        await bench.settle();
        const { outcome } = caller.call(subject, Buffer.from('x'), { to: server.peer, deadlineMs: DEADLINE_MS });
        assert.equal(result(await outcome).toString(), 'x');
      }
    });

    scenario('a peer that leaves ends what is under way at both ends, once', async (bench, a, b) => {
      const { call } = await hanging(bench, a, b);
      const other = await hanging(bench, b, a);
      await Promise.all([b.close(), b.close()]);
      assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
      assert.equal(failure(await other.call.outcome).outcome, 'UNKNOWN');
      await eventually(bench, () => other.serving.cancelled !== null);
      assert.equal(b.status.state, 'closed');
      const { outcome } = b.call('trunkline.echo', Buffer.alloc(0), { to: null, deadlineMs: DEADLINE_MS });
      assert.equal(failure(await outcome).outcome, 'NOT_SENT');
      await b.close();
    });
  });
}

const reasons = new WeakMap<BusServing, string[]>();

/** A call from one peer to the other that is being served and not answered; the caller knows that. */
async function hanging(bench: BusBench, from: Bus, to: Bus, deadlineMs = DEADLINE_MS) {
  const subject = `trunkline.hanging.${to.peer}`;
  let serving: BusServing | null = null;
  to.serve(subject, (taken) => {
    serving = taken;
    const told: string[] = [];
    reasons.set(taken, told);
    taken.onCancel = (reason) => told.push(reason);
  });
  await bench.settle();
  const emitted: Buffer[] = [];
  const call = from.call(subject, Buffer.from('x'), {
    to: to.peer,
    deadlineMs,
    onEmit: (payload) => emitted.push(Buffer.from(payload)),
  });
  await eventually(bench, () => serving !== null);
  await bench.clock.advance(20);
  await eventually(bench, () => call.takenBy !== null);
  return { serving: serving as unknown as BusServing, call, emitted };
}

async function eventually(bench: BusBench, condition: () => boolean): Promise<void> {
  for (let turn = 0; !condition(); turn++) {
    assert.ok(turn < 20_000, `it never came to be: ${condition.toString()}`);
    await bench.settle();
  }
}

function result(outcome: BusOutcome): Buffer {
  if (outcome.kind === 'failure') throw outcome.error;
  return outcome.payload;
}

function failure(outcome: BusOutcome): GatewayError {
  assert.equal(outcome.kind, 'failure');
  return (outcome as Extract<BusOutcome, { kind: 'failure' }>).error;
}

function failed(code: ErrorCode, options: GatewayErrorOptions = {}): GatewayError {
  return new GatewayError(code, `for the test: ${code}`, options);
}

/** Bytes of which no stretch is like another. */
function patterned(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let state = length + 1;
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[at] = state >>> 16;
  }
  return bytes;
}
