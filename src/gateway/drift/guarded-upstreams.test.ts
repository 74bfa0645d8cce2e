import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Upstreams } from '../../model/ports.ts';
import type { Drift } from './drift.ts';
import { GuardedUpstreams } from './guarded-upstreams.ts';

/** Upstreams that write down what they were called with, and answer null. */
function recording(calls: unknown[][]): Upstreams {
  return new Proxy({} as Upstreams, {
    get:
      (_target, name) =>
      (...given: unknown[]) => {
        calls.push([name, ...given]);
        return null;
      },
  });
}

const METHODS = Object.getOwnPropertyNames(GuardedUpstreams.prototype).filter((name) => name !== 'constructor');

test('goal:G13 the layer in front of the upstreams passes on every argument', async () => {
  assert.ok(METHODS.length >= 10);
  const calls: unknown[][] = [];
  const upstreams = new GuardedUpstreams(recording(calls), {
    view: () => assert.fail('nothing to be viewed'),
  } as unknown as Drift);
  for (const name of METHODS) {
    const method = Reflect.get(upstreams, name) as (...given: unknown[]) => unknown;
    const given = Array.from({ length: method.length }, (_, at) => ({ argument: at }));
    calls.length = 0;
    await Reflect.apply(method, upstreams, given);
    assert.deepEqual(calls, [[name, ...given]], name);
  }
  calls.length = 0;
  await upstreams.catalog('a', {} as never, 5, true);
  assert.deepEqual(calls, [['catalog', 'a', {}, 5, true]], 'among others');
});
