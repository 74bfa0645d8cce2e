import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { ConsoleLogins } from './console-logins.ts';

const HOUR_MS = 60 * 60_000;

test('a session ends after twelve hours without use; an open stream counts as use, for a week at most', async () => {
  const clock = new FakeClock();
  const logins = new ConsoleLogins(clock, 'token', { token: null, publicUrl: null });
  const open = () => logins.find(`${logins.cookieName}=${logins.open({ token: 'token' })!.cookie}`)!;
  const [idle, streaming] = [open(), open()];
  for (let hour = 0; hour < 7 * 24; hour++) {
    assert.ok(logins.isOpen(streaming), `after ${hour} hours`);
    await clock.advance(HOUR_MS);
  }
  await clock.advance(1);
  assert.deepEqual([logins.isOpen(idle), logins.isOpen(streaming)], [false, false]);
});
