import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_LOGINS } from '../../../test/support/gateway-bench.ts';
import type { Upstreams } from '../../model/ports.ts';
import { guardedUpstreams } from './guarded-upstreams.ts';

/** Upstreams that record the arguments of their calls, and answer null. */
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

test('goal:G13 the layer in front of the upstreams passes on every argument', async () => {
  const calls: unknown[][] = [];
  const upstreams = guardedUpstreams(recording(calls), { view: () => assert.fail('nothing to be viewed') }, NO_LOGINS);
  const methods = Object.entries(upstreams) as [string, (...given: unknown[]) => unknown][];
  assert.ok(methods.length >= 10);
  for (const [name, method] of methods) {
    const given = Array.from({ length: method.length }, (_, at) => ({ argument: at }));
    calls.length = 0;
    await method(...given);
    assert.deepEqual(calls, [[name, ...given]], name);
  }
  calls.length = 0;
  await upstreams.catalog('a', {} as never, 5, true);
  assert.deepEqual(calls, [['catalog', 'a', {}, 5, true]], 'among others');
});
