import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { request, result } from '../../protocol/compose.ts';
import type { PendingRequest } from '../calls/pending.ts';
import { ConnectionUse } from './connection-use.ts';

const DONE = result('1', '{}', 'stateful');

test('S1.7 a connection with more subscriptions than are tracked counts as watching until it ends', () => {
  for (const [subscriptions, watching] of [
    [4_096, false],
    [4_097, true],
  ] as const) {
    const use = new ConnectionUse(new FakeClock());
    const about = (method: string, uri: string): void => {
      const message = request(method, '1', JSON.stringify({ uri }), 'stateful');
      use.answered({ exchange: {}, method, request: message } as unknown as PendingRequest, DONE);
    };
    for (let i = 0; i < subscriptions; i++) about('resources/subscribe', `x://${i}`);
    about('resources/subscribe', 'x://0');
    for (let i = 0; i < 4_096; i++) about('resources/unsubscribe', `x://${i}`);
    assert.equal(use.watching, watching, `${subscriptions}`);
  }
});

test('a task whose id is too long to be kept is not counted as running', () => {
  for (const [length, working] of [
    [1_024, true],
    [1_025, false],
  ] as const) {
    const use = new ConnectionUse(new FakeClock());
    const task = { taskId: 'x'.repeat(length), status: 'working', ttl: null };
    const begun = result('1', JSON.stringify({ task }), 'stateful');
    const call = { exchange: { beginsTask: true }, method: 'tools/call', request: null };
    use.answered(call as unknown as PendingRequest, begun);
    assert.equal(use.working, working, `${length}`);
  }
});
