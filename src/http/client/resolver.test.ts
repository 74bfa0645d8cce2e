import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { Clock } from '../../model/clock.ts';
import { Resolver } from './resolver.ts';

type Answer = (error: NodeJS.ErrnoException | null, addresses?: { address: string; family: number }[]) => void;

/** A clock that is turned by hand. */
class HandClock implements Clock {
  #now = 0;
  readonly #timers = new Set<{ at: number; task: () => void }>();
  now(): number {
    return this.#now;
  }
  turnNow(): number {
    return this.#now;
  }
  wall(): number {
    return this.#now;
  }
  after(delayMs: number, task: () => void): () => void {
    const timer = { at: this.#now + delayMs, task };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }
  turn(ms: number): void {
    this.#now += ms;
    for (const timer of [...this.#timers]) {
      if (timer.at > this.#now || !this.#timers.delete(timer)) continue;
      timer.task();
    }
  }
}

function rig() {
  const clock = new HandClock();
  const asked: string[] = [];
  const open: Answer[] = [];
  const resolver = new Resolver({
    clock,
    lookup: (name, answer) => {
      asked.push(name);
      open.push(answer);
    },
  });
  const resolve = (name: string) =>
    new Promise<string>((settle) =>
      resolver.resolve(name, (error, addresses) => settle(error?.code ?? addresses.map((a) => a.address).join())),
    );
  return { clock, asked, open, resolve, resolver };
}

const one = [{ address: '10.0.0.1', family: 4 }];
const two = [{ address: '10.0.0.2', family: 4 }];
const failed = Object.assign(new Error('no'), { code: 'ENOTFOUND' });

describe('resolver', () => {
  test('asks once for all waiters, keeps the answer for a moment, then asks again', async () => {
    const { clock, asked, open, resolve } = rig();
    const both = [resolve('a'), resolve('a')];
    open.shift()!(null, one);
    assert.deepEqual(await Promise.all(both), ['10.0.0.1', '10.0.0.1']);
    assert.equal(await resolve('a'), '10.0.0.1');
    assert.equal(asked.length, 1);
    clock.turn(5_001);
    const again = resolve('a');
    open.shift()!(null, two);
    assert.equal(await again, '10.0.0.2');
  });

  test('uses the last address for up to 60 s when the name stops resolving', async () => {
    const { clock, open, resolve } = rig();
    const first = resolve('a');
    open.shift()!(null, one);
    await first;
    clock.turn(60_000);
    const stale = resolve('a');
    open.shift()!(failed);
    assert.equal(await stale, '10.0.0.1');
    clock.turn(5_001);
    const gone = resolve('a');
    open.shift()!(failed);
    assert.equal(await gone, 'ENOTFOUND');
  });

  test('a look-up that hangs fails in 4 s, still counts as running, and its late answer is kept', async () => {
    const { clock, asked, open, resolve } = rig();
    const hanging = [resolve('a'), resolve('b'), resolve('c')];
    assert.deepEqual(asked, ['a', 'b']);
    clock.turn(4_000);
    assert.deepEqual(await Promise.all(hanging), ['EAI_AGAIN', 'EAI_AGAIN', 'EAI_AGAIN']);
    const later = resolve('d');
    assert.deepEqual(asked, ['a', 'b']);
    open.shift()!(null, one);
    assert.deepEqual(asked, ['a', 'b', 'd']);
    assert.equal(await resolve('a'), '10.0.0.1');
    open.at(-1)!(null, two);
    assert.equal(await later, '10.0.0.2');
  });

  test('never has more than two look-ups running', async () => {
    let running = 0;
    let most = 0;
    const resolver = new Resolver({
      lookup: (_name, answer) => {
        most = Math.max(most, ++running);
        setTimeout(() => {
          running -= 1;
          answer(null, one);
        }, 1);
      },
    });
    const all = Array.from({ length: 200 }, (_, i) => new Promise((done) => resolver.resolve(`n${i}`, done)));
    await readFile(import.meta.filename);
    await Promise.all(all);
    assert.equal(most, 2);
  });

  test("fault:F26 the system's look-up: a name that does not exist, one too long and one that makes it throw give errors", async () => {
    const resolver = new Resolver();
    const failure = (name: string, options: object) =>
      new Promise((settle) => resolver.lookup(name, options, (error, address) => settle([error?.code, address])));
    for (const [name, code] of [
      ['no-such-host.invalid', 'ENOTFOUND'],
      ['a'.repeat(300), 'EINVAL'],
      ['zero\0byte', 'ERR_INVALID_ARG_VALUE'],
    ] as const) {
      assert.deepEqual(await failure(name, { all: true }), [code, []]);
      assert.deepEqual(await failure(name, {}), [code, '']);
    }
    assert.deepEqual(await failure('127.0.0.1', {}), [undefined, '127.0.0.1']);
  });

  test('answers in both forms that net requests, and picks the family', async () => {
    const { open, resolver } = rig();
    const ask = (options: object) =>
      new Promise((settle) => resolver.lookup('a', options, (...answer) => settle(answer)));
    const all = ask({ all: true });
    open.shift()!(null, [...one, { address: '::1', family: 6 }]);
    assert.deepEqual(await all, [null, [...one, { address: '::1', family: 6 }]]);
    assert.deepEqual(await ask({}), [null, '10.0.0.1', 4]);
    assert.deepEqual(await ask({ family: 6 }), [null, '::1', 6]);
  });
});
