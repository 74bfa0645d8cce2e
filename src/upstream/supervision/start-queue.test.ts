import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulScript } from '../../../test/support/scripted-server.ts';
import { httpServerOf, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { Attempt } from '../connection/attempt.ts';
import { StartQueue } from './start-queue.ts';

const CALL = { done: false, leftMs: 60_000 };
const LIMITS = { width: 2, forCalls: 0, patienceMs: 1_000 };

class Bench {
  readonly clock = new FakeClock();
  readonly begun: string[] = [];
  readonly #attempts = new Map<string, Attempt>();
  readonly #queue: StartQueue;

  constructor(limits = LIMITS) {
    this.#queue = new StartQueue(limits, this.clock);
  }

  async add(...names: string[]): Promise<void> {
    for (const name of names) {
      const attempt = new Attempt();
      this.#attempts.set(name, attempt);
      if (name.startsWith('call')) attempt.prioritize(CALL);
      void this.#queue.take(attempt).then(() => {
        if (!attempt.waiting) this.begun.push(name);
      });
    }
    await settled();
  }

  of(name: string): Attempt {
    return this.#attempts.get(name)!;
  }

  async end(name: string): Promise<void> {
    this.of(name).place?.leave();
    await settled();
  }
}

test('check:A11 starts begin in order, up to the limit at once', async () => {
  const bench = new Bench();
  await bench.add('a', 'b', 'c', 'd');
  assert.deepEqual(bench.begun, ['a', 'b']);
  await bench.end('b');
  assert.deepEqual(bench.begun, ['a', 'b', 'c']);
});

test('fault:F01 goal:G13 starts that hang do not keep others from starting, and count once', async () => {
  const bench = new Bench();
  const { begun, clock } = bench;
  await bench.add('hangs-1', 'hangs-2', 'c', 'd', 'e', 'f');
  await clock.advance(999);
  assert.equal(begun.length, 2);
  await clock.advance(1);
  assert.deepEqual(begun, ['hangs-1', 'hangs-2', 'c', 'd']);
  await bench.end('hangs-1');
  assert.equal(begun.length, 4);
  await bench.end('c');
  assert.deepEqual(begun.slice(4), ['e']);
  assert.equal(clock.pending, 2);
});

test('a cancelled start gives its place back at once, and one that waits leaves the queue', async () => {
  const bench = new Bench();
  await bench.add('a', 'b', 'c', 'd', 'e');
  bench.of('c').cancel();
  bench.of('a').cancel();
  await settled();
  assert.deepEqual(bench.begun, ['a', 'b', 'd']);
  assert.equal(bench.of('c').waiting, true);
});

test('fault:F01 a start that a call waits for comes before those in the background, from the moment of the call', async () => {
  const bench = new Bench();
  await bench.add('a', 'b', 'c', 'd', 'call 1');
  bench.of('d').prioritize(CALL);
  for (const name of ['a', 'b', 'call 1', 'd']) await bench.end(name);
  assert.deepEqual(bench.begun, ['a', 'b', 'call 1', 'd', 'c']);
});

test('goal:G13 one place is reserved for calls; after eight calls in a row one start in the background begins', async () => {
  const bench = new Bench({ ...LIMITS, forCalls: 1 });
  const calls = Array.from({ length: 10 }, (_, i) => `call ${i}`);
  await bench.add('hangs', 'b', ...calls);
  assert.deepEqual(bench.begun, ['hangs', 'call 0']);
  for (let i = 0; i < 8; i++) await bench.end(calls[i]!);
  assert.deepEqual(bench.begun, ['hangs', ...calls.slice(0, 8), 'b']);
  await bench.end('b');
  assert.deepEqual(bench.begun.slice(-1), ['call 8']);
});

test('an attempt keeps its place; one that follows several attempts joins the first of them', async () => {
  const bench = new Bench();
  const queue = new StartQueue({ ...LIMITS, width: 1 }, bench.clock);
  const [whole, first, second] = [new Attempt(), new Attempt(), new Attempt()];
  await queue.take(first);
  await queue.take(first);
  whole.follow(first);
  whole.follow(second);
  whole.prioritize(CALL);
  await settled();
  assert.deepEqual([whole.waiting, first.calls.size > 0, second.calls.size > 0], [false, true, false]);
});

/** Numbers that are the same for each seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

interface Start {
  readonly attempt: Attempt;
  readonly order: number;
  /** The step since which a call waits for it; null without a call. */
  call: number | null;
  state: 'waiting' | 'had' | 'over';
  begunAt: number;
}

test('property: starts, calls, ends, cancels and hangs in any order: never too many, none lost, in order', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = randomOf(seed);
    const limits = { width: 1 + random(5), forCalls: 0, patienceMs: 1_000 };
    limits.forCalls = limits.width > 1 ? random(2) : 0;
    const clock = new FakeClock();
    const queue = new StartQueue(limits, clock);
    const starts: Start[] = [];
    let happened = 0;
    let inARow = 0;
    const inPlace = () =>
      starts.filter(({ state, begunAt }) => state === 'had' && clock.now() - begunAt < limits.patienceMs);
    const begin = (start: Start): void => {
      const waiting = starts.filter(({ state }) => state === 'waiting');
      const calls = waiting.filter(({ call }) => call !== null).sort((a, b) => a.call! - b.call!);
      const others = waiting.filter(({ call }) => call === null);
      const expected = start.call === null ? others[0] : calls[0];
      assert.equal(start, expected, `seed ${seed}: out of order`);
      if (start.call === null && calls.length > 0) assert.ok(inARow >= 8, `seed ${seed}: a call was passed over`);
      inARow = start.call !== null && others.length > 0 ? inARow + 1 : 0;
      start.state = 'had';
      start.begunAt = clock.now();
      assert.ok(inPlace().length <= limits.width, `seed ${seed}: ${inPlace().length} of ${limits.width}`);
    };
    const add = (call: boolean): void => {
      const attempt = new Attempt();
      const start: Start = { attempt, order: happened, call: call ? happened : null, state: 'waiting', begunAt: 0 };
      if (call) attempt.prioritize(CALL);
      const start0 = attempt.begin.bind(attempt);
      attempt.begin = () => {
        begin(start);
        start0();
      };
      starts.push(start);
      void queue.take(attempt);
    };
    for (happened = 0; happened < 150; happened++) {
      const live = starts.filter(({ state }) => state !== 'over');
      const one = live[random(live.length)];
      const what = random(10);
      if (what < 4 || one === undefined) add(random(3) === 0);
      else if (what < 6) {
        const had = live.find(({ state }) => state === 'had');
        if (had !== undefined) {
          had.state = 'over';
          had.attempt.place?.leave();
        }
      } else if (what === 6) {
        one.state = 'over';
        one.attempt.cancel();
      } else if (what === 7 && one.state === 'waiting' && one.call === null) {
        one.call = happened;
        one.attempt.prioritize(CALL);
      } else if (what === 8) await settled();
      else await clock.advance(random(700));
    }
    // Starts that hang give up their places, so that all starts get one.
    for (let i = 0; i < 300 && starts.some(({ state }) => state === 'waiting'); i++) await clock.advance(1_000);
    assert.deepEqual(
      starts.filter(({ state }) => state === 'waiting').map(({ order }) => order),
      [],
      `seed ${seed}: forgotten`,
    );
    for (const { attempt } of starts) attempt.place?.leave();
    assert.equal(clock.pending, 0);
  }
});

test('S3.7 a start that a call joins while it waits takes the place kept for calls at once', async () => {
  const bench = new Bench({ width: 3, forCalls: 1, patienceMs: 20_000 });
  await bench.add('mute-1', 'mute-2', 'good');
  assert.deepEqual(bench.begun, ['mute-1', 'mute-2']);
  bench.of('good').prioritize(CALL);
  await settled();
  assert.deepEqual(bench.begun, ['mute-1', 'mute-2', 'good']);
});

test('S3.9 W3.4 a stop wins over a start that waits in the queue; a server that was disabled and enabled again starts', async () => {
  const bench = new UpstreamBench();
  const silent = () => new ScriptedServer({ initialize: () => SILENCE, 'server/discover': () => SILENCE });
  // As many as may start at once.
  const hanging = Array.from({ length: 64 }, (_, i) => httpServerOf(`h${i}`, { start: 'eager' }));
  const y = httpServerOf('y', { start: 'eager' });
  const z = httpServerOf('z', { start: 'eager' });
  const scripts = hanging.map((server) => [server, silent()] as const);
  await bench.run(...scripts, [y, statefulScript()], [z, statefulScript()]);
  for (const enabled of [false, true]) {
    const servers = [...hanging, { ...y, enabled }, z];
    await bench.set.apply(new Map(servers.map((server) => [server.name, server])));
  }
  await bench.set.upstream('z')!.stop();
  assert.deepEqual([bench.set.state('y'), bench.set.state('z')], ['suspended', 'disconnected']);
  await bench.clock.advance(1_000);
  assert.deepEqual([bench.set.state('y'), bench.set.state('z')], ['connected', 'disconnected']);
});
