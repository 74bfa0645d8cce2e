import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EXIT } from '../exit-code.ts';
import { waitUntilStarted } from './replay.ts';

test('a server that does not come up in time ends the replay', async () => {
  const of = (state: 'starting' | 'failed' | 'running', reason: string | null) => ({
    status: () => ({ state, reason }),
  });
  await waitUntilStarted(of('running', null), 's', 0);
  await assert.rejects(waitUntilStarted(of('starting', null), 's', 0), {
    exitCode: EXIT.unreachable,
    message: /against: it is still starting after 0 s; trunkline doctor/,
  });
  await assert.rejects(waitUntilStarted(of('starting', 'exited 1'), 's', 0), { message: /after 0 s \(exited 1\)/ });
  await assert.rejects(waitUntilStarted(of('failed', 'exited 1'), 's', 0), { message: /against: exited 1$/ });
});
