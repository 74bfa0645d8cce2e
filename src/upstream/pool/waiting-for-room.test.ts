import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { type ScriptedServer, SILENCE, statefulScript } from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  serverOf,
  type TestExchange,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';

const limits = { maxMessageBytes: 1 << 20, maxProcesses: 2 };

/** A server at its limit: two sessions with a call in flight. `begun`: the later calls that were sent to it. */
class FullServer {
  readonly bench = new UpstreamBench();
  readonly script: ScriptedServer = statefulScript();
  readonly begun: string[] = [];
  readonly ended: string[] = [];

  async begin(timeoutMs = 60_000): Promise<void> {
    this.script.handlers['tools/call'] = () => SILENCE;
    await this.bench.run([serverOf('a', { limits, timeoutMs }), this.script]);
    for (const session of ['one', 'two']) void this.bench.call('a', toolCall(clientOf(session)));
    await settled();
    await this.bench.clock.advance(50);
    this.script.handlers['tools/call'] = (params) => {
      this.begun.push((params as { name: string }).name);
      return SILENCE;
    };
  }

  call(session: string, exchange: TestExchange = toolCall(clientOf(session), `{"name":"${session}"}`)) {
    const outcome = this.bench.call('a', exchange);
    void outcome.then(({ kind }) => this.ended.push(`${session} ${kind}`));
    return outcome;
  }

  /** The call of the n-th process is answered, which makes the process idle. */
  async answers(link: number): Promise<void> {
    const answered = this.script.links[link]!;
    answered.respond(answered.lastOf('tools/call').id as number, { content: [] });
    await settled();
    await this.bench.clock.advance(50);
  }
}

test('S1.8 S1.15 check:C8 at the limit a call waits for the next process that becomes idle, first in first out', async () => {
  const full = new FullServer();
  await full.begin();
  for (const session of ['three', 'four']) void full.call(session);
  await settled();
  await full.bench.clock.advance(500);
  assert.deepEqual([full.ended, full.bench.events.lost], [[], []], 'processes with a call in flight stay');
  assert.equal(full.script.live.length, 2);
  await full.answers(0);
  void full.call('five');
  await settled();
  assert.deepEqual([full.begun, full.bench.events.lost], [['three'], ['one']]);
  await full.answers(1);
  assert.deepEqual(
    [full.begun, full.bench.events.lost],
    [
      ['three', 'four'],
      ['one', 'two'],
    ],
  );
  assert.equal(full.script.live.length, 2);
  await full.answers(2);
  assert.deepEqual(full.begun, ['three', 'four', 'five']);
  assert.deepEqual(full.ended, ['three answer']);
  await full.bench.set.close('shutdown');
  assert.equal(full.bench.clock.pending, 0);
});

test('S1.8 at the limit a call waits two seconds, at most half of its timeout, and is then refused', async () => {
  for (const [timeoutMs, waitMs] of [
    [60_000, 2_000],
    [1_000, 500],
  ] as const) {
    const full = new FullServer();
    await full.begin(timeoutMs);
    const outcome = full.call('three');
    await settled();
    await full.bench.clock.advance(waitMs - 20);
    assert.deepEqual(full.ended, []);
    await full.bench.clock.advance(30);
    const { code, outcome: word, data, message } = failureOf(await outcome);
    assert.deepEqual([code, word, data.retryAfterMs], ['OVERLOADED', 'REFUSED', 1_000]);
    assert.match(message, /a runs 2 processes, its limit \(limits\.maxProcesses\), and all are in use/);
    assert.deepEqual(full.bench.events.lost, []);
  }
});

test('S1.8 a call that was cancelled, or whose session ended, while it waited for room ends no process', async () => {
  const full = new FullServer();
  await full.begin();
  const exchange = toolCall(clientOf('three'));
  const cancelled = full.call('three', exchange);
  const released = full.call('four');
  await settled();
  exchange.cancel('enough');
  assert.equal(failureOf(await cancelled).code, 'CANCELLED');
  full.bench.set.releaseSession('four');
  assert.equal(failureOf(await released).outcome, 'NOT_SENT');
  await full.answers(0);
  assert.deepEqual([full.bench.events.lost, full.script.links.length], [[], 2]);
});

test('S1.8 at the node’s limit the first call of a server waits for an idle process of another one', async () => {
  const bench = new UpstreamBench({ maxProcesses: 2 });
  const scripts = ['a', 'b', 'c'].map(() => statefulScript());
  await bench.run(...scripts.map((script, i) => [serverOf('abc'[i]!), script] as const));
  for (const [i, name] of ['a', 'b'].entries()) {
    scripts[i]!.handlers['tools/call'] = () => SILENCE;
    void bench.call(name, toolCall(clientOf('one')));
  }
  await settled();
  const outcome = bench.call('c', toolCall(clientOf('one')));
  await settled();
  await bench.clock.advance(1_000);
  assert.equal(scripts[2]!.links.length, 0);
  const [link] = scripts[0]!.links;
  link!.respond(link!.lastOf('tools/call').id as number, { content: [] });
  await settled();
  await bench.clock.advance(50);
  answerText(await outcome);
  assert.deepEqual(bench.events.lost, ['one']);
  assert.deepEqual([link!.state, scripts[1]!.live.length], ['closed', 1]);
});

test('S1.8 of many concurrent first calls those above the limit wait until the others are answered', async () => {
  const bench = new UpstreamBench();
  await bench.run([serverOf('a', { limits }), statefulScript()]);
  const calls = Array.from({ length: 8 }, (_, i) => bench.call('a', toolCall(clientOf(`${i}`))));
  await settled();
  for (let i = 0; i < 20; i++) await bench.clock.advance(50);
  for (const outcome of await Promise.all(calls)) answerText(outcome);
});
