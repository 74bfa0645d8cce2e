import assert from 'node:assert/strict';
import type { BusCall, BusServing } from '../../src/bus/bus.ts';
import type { GatewayError } from '../../src/model/gateway-error.ts';
import {
  DEADLINE_MS,
  eventually,
  failed,
  failure,
  hanging,
  MIB,
  patterned,
  reasons,
  result,
  type Scenario,
  serveEcho,
} from './bus-bench.ts';

/** Calls from peer to peer, and how they end. */
export function callContract(scenario: Scenario): void {
  scenario('a call of any size and its answer pass byte for byte', async (bench, a, b) => {
    const subject = serveEcho(b);
    await bench.settle();
    const odd = Buffer.from([0, 255, 13, 10, 0, 128]);
    for (const payload of [Buffer.alloc(0), odd, patterned(512 * 1024), patterned(3 * MIB + 17)]) {
      const { outcome } = a.call(subject, payload, { to: b.peer, deadlineMs: DEADLINE_MS });
      assert.ok(result(await outcome).equals(payload), `${payload.length} bytes`);
    }
    const pieces = [patterned(700_000), Buffer.alloc(0), patterned(5), patterned(700_000)];
    const call = a.call(subject, pieces, { to: b.peer, deadlineMs: DEADLINE_MS });
    // The caller may use its buffers again.
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

  scenario('a call without a server is NOT_SENT at once', async (_bench, a) => {
    const to = '0123456789abcdef';
    const { outcome } = a.call('trunkline.nobody', Buffer.from('x'), { to, deadlineMs: DEADLINE_MS });
    assert.equal(failure(await outcome).outcome, 'NOT_SENT');
  });

  scenario('messages and input requests during a call go both ways, in order', async (bench, a, b) => {
    const subject = 'trunkline.asking';
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
    assert.equal(call.accepted, true);
    assert.deepEqual(emitted, [...Array.from({ length: 300 }, (_, at) => `step ${at}`), 'last step']);
  });

  scenario('a caller that accepts no input requests gets none', async (bench, a, b) => {
    const subject = 'trunkline.asking';
    b.serve(subject, async (serving) => serving.answer(await serving.ask(Buffer.from('?'))));
    await bench.settle();
    const { outcome } = a.call(subject, Buffer.alloc(0), { to: b.peer, deadlineMs: DEADLINE_MS });
    assert.equal(failure(await outcome).code, 'METHOD_NOT_FOUND');
  });

  scenario('a cancelled call ends at once, and its server gets the reason', async (bench, a, b) => {
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

  scenario('the deadline of the caller applies at both ends', async (bench, a, b) => {
    const { serving, call } = await hanging(bench, a, b, 5_000);
    await bench.clock.advance(5_000);
    const error = failure(await call.outcome);
    assert.equal(error.code, 'TIMEOUT');
    assert.equal(error.outcome, 'UNKNOWN');
    await eventually(bench, () => serving.cancelled !== null);
    assert.equal(reasons.get(serving)?.length, 1);
  });

  scenario(
    'check:H5 an idle timeout of the caller ends a silent call; messages, input requests and a pause postpone it',
    async (bench, a, b) => {
      const subject = 'trunkline.quiet';
      let serving: BusServing | null = null;
      b.serve(subject, (taken) => {
        serving = taken;
      });
      await bench.settle();
      let heard = 0;
      let asks = 0;
      const { promise: thought, resolve: answer } = Promise.withResolvers<Buffer>();
      const call = a.call(subject, Buffer.from('x'), {
        to: b.peer,
        deadlineMs: 60_000,
        idleTimeoutMs: 5_000,
        onEmit: () => heard++,
        onAsk: () => {
          asks++;
          return thought;
        },
      });
      let over = false;
      void call.outcome.then(() => {
        over = true;
      });
      await eventually(bench, () => serving !== null);
      const at = serving as unknown as BusServing;
      await bench.clock.advance(20);
      await eventually(bench, () => call.accepted);
      await bench.clock.advance(4_000);
      at.emit(Buffer.from('1'));
      await eventually(bench, () => heard === 1);
      await bench.clock.advance(4_000);
      const asked = at.ask(Buffer.from('?'));
      await eventually(bench, () => asks === 1);
      await bench.clock.advance(20_000);
      answer(Buffer.from('!'));
      await asked;
      await bench.clock.advance(4_000);
      call.pause();
      await bench.clock.advance(10_000);
      call.resume();
      await bench.clock.advance(4_000);
      await bench.settle();
      assert.equal(over, false);
      await bench.clock.advance(1_100);
      const error = failure(await call.outcome);
      assert.deepEqual([error.code, error.outcome], ['TIMEOUT', 'UNKNOWN']);
      await eventually(bench, () => at.cancelled !== null);
    },
  );

  scenario('a call that a peer does not serve, or no longer serves, is NOT_SENT as well', async (bench, a, b) => {
    const subject = 'trunkline.passing';
    const call = () => a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome;
    assert.equal(failure(await call()).outcome, 'NOT_SENT');
    const registration = b.serve(subject, (serving) => serving.answer(serving.payload));
    await bench.settle();
    assert.equal(result(await call()).toString(), 'x');
    registration.close();
    assert.equal(failure(await call()).outcome, 'NOT_SENT');
  });

  scenario('concurrent calls and answers share messages', async (bench, a, b) => {
    const subject = serveEcho(b);
    const messages = await bench.overhear('trunkline.call.*');
    await bench.settle();
    result(await a.call(subject, Buffer.alloc(0), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome);
    const before = messages.length;
    const payloads = Array.from({ length: 100 }, (_, at) => patterned(at * 20));
    const calls = payloads.map((payload) => a.call(subject, payload, { to: b.peer, deadlineMs: DEADLINE_MS }));
    for (const [at, { outcome }] of calls.entries()) assert.ok(result(await outcome).equals(payloads[at]!), `${at}`);
    await bench.settle();
    // 100,000 bytes each way, of which one message takes 64 KiB.
    assert.equal(messages.length - before, 4);
  });

  scenario('a call that its peer does not take in time is UNKNOWN: the peer may have it', async (bench, a) => {
    const to = '0123456789abcdef';
    await bench.overhear(`trunkline.call.${to}`);
    await bench.settle();
    const call = a.call('trunkline.deaf', Buffer.alloc(0), { to, deadlineMs: DEADLINE_MS });
    await bench.settle();
    await bench.clock.advance(1_500);
    assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
  });

  scenario('failures keep their outcome, code and details', async (bench, a, b) => {
    const subject = 'trunkline.failing';
    b.serve(subject, (serving) =>
      serving.fail(
        failed('OVERLOADED', {
          retryAfterMs: 250,
          server: 'memory',
          state: 'failed',
          attempts: 2,
          forCallers: 'later',
        }),
      ),
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
      state: 'failed',
      attempts: 2,
    });
    assert.equal((await ended('.throws')).code, 'INTERNAL');
    assert.equal((await ended('.rejects')).outcome, 'NOT_SENT');
    assert.equal((await ended('.forgets')).outcome, 'UNKNOWN');
  });

  scenario('concurrent calls above the limit of a subject are REFUSED', async (bench, a, b) => {
    const subject = 'trunkline.narrow';
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

  scenario('a long request that is REFUSED is not served when the rest of it comes', async (bench, a, b) => {
    const subject = 'trunkline.narrow';
    const held: BusServing[] = [];
    b.serve(subject, (serving) => void held.push(serving), { concurrency: 1 });
    await bench.settle();
    const call = (payload: Buffer) => a.call(subject, payload, { to: b.peer, deadlineMs: DEADLINE_MS }).outcome;
    const first = call(Buffer.alloc(0));
    assert.equal(failure(await call(patterned(2 * MIB))).code, 'OVERLOADED');
    await eventually(bench, () => b.status.serving === 1);
    assert.equal(held.length, 1);
    held[0]!.answer(Buffer.from('ok'));
    result(await first);
  });

  scenario('calls at a peer that is gone end at once', async (bench, a, b) => {
    const { serving, call } = await hanging(bench, a, b);
    const other = await hanging(bench, b, a);
    a.peerLost(b.peer, 'no heartbeat');
    const error = failure(await call.outcome);
    assert.equal(error.outcome, 'UNKNOWN');
    assert.equal(error.message, 'no heartbeat');
    assert.match(other.serving.cancelled!, /gave it up: no heartbeat/);
    // The peer is alive, only its heartbeats did not arrive: its call does not wait for an answer that will not come.
    assert.equal(failure(await other.call.outcome).outcome, 'UNKNOWN');
    await eventually(bench, () => serving.cancelled !== null);
  });

  scenario('a call that a peer had not taken when it announced its leave is NOT_SENT', async (bench, a, b) => {
    const { call: taken } = await hanging(bench, a, b);
    const subject = 'trunkline.leaving';
    const registration = b.serve(subject, (serving) => serving.answer(serving.payload));
    await bench.settle();
    registration.close();
    await bench.settle();
    const call = a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS });
    a.peerLost(b.peer, 'it has left', true);
    assert.equal(failure(await call.outcome).outcome, 'NOT_SENT');
    assert.equal(failure(await taken.outcome).message, 'it has left');
  });

  scenario('a call to a peer that is leaving the bus is NOT_SENT', async (bench, a, b) => {
    const subject = serveEcho(b);
    await bench.settle();
    result(await a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS }).outcome);
    let closed = false;
    const closing = b.close().then(() => {
      closed = true;
    });
    const calls: BusCall[] = [];
    while (!closed) {
      calls.push(a.call(subject, Buffer.from('x'), { to: b.peer, deadlineMs: DEADLINE_MS }));
      await new Promise((go) => setImmediate(go));
    }
    await closing;
    assert.ok(calls.length > 0);
    for (const { outcome } of calls) assert.equal(failure(await outcome).outcome, 'NOT_SENT');
  });

  scenario('calls that a peer begins while it leaves the bus end', async (bench, a, b) => {
    const subject = serveEcho(a);
    await bench.settle();
    const calls: BusCall[] = [];
    let closed = false;
    const closing = b.close().then(() => {
      closed = true;
    });
    while (!closed) {
      calls.push(b.call(subject, Buffer.from('x'), { to: a.peer, deadlineMs: DEADLINE_MS }));
      await new Promise((go) => setImmediate(go));
    }
    await closing;
    assert.ok(calls.length > 0);
    for (const { outcome } of calls) assert.ok(await outcome);
  });

  scenario('a peer that leaves ends its calls at both ends, once', async (bench, a, b) => {
    const { call } = await hanging(bench, a, b);
    const other = await hanging(bench, b, a);
    await Promise.all([b.close(), b.close()]);
    assert.equal(failure(await call.outcome).outcome, 'UNKNOWN');
    assert.equal(failure(await other.call.outcome).outcome, 'UNKNOWN');
    await eventually(bench, () => other.serving.cancelled !== null);
    assert.equal(b.status.state, 'closed');
    const { outcome } = b.call('trunkline.echo', Buffer.alloc(0), { to: a.peer, deadlineMs: DEADLINE_MS });
    assert.equal(failure(await outcome).outcome, 'NOT_SENT');
    await b.close();
  });
}
