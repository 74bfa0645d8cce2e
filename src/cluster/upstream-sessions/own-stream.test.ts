import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import type { SessionMember } from '../../model/ports.ts';
import { listenWithoutClaim, type OwnStream } from './used-sessions.ts';

test('a node that listens alone continues where the previous one ended, and reports what may be missed', async () => {
  const stream: OwnStream = {};
  const listened: [string | null, boolean][] = [];
  const member = (heard: string | null): SessionMember => ({
    listens: false,
    generationChanged: () => {},
    listen: (after, gap) => void listened.push([after, gap]),
    stopListening: () => heard,
    replaced: () => {},
  });
  // This member leaves before it can listen.
  listenWithoutClaim(stream, member(null))();
  for (const heard of ['e7', null, 'e9']) {
    const leave = listenWithoutClaim(stream, member(heard));
    await settled();
    leave();
    leave();
  }
  assert.deepEqual(listened, [
    [null, false],
    ['e7', false],
    [null, true],
  ]);
});
