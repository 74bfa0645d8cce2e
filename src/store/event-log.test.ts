import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { Logger } from '../telemetry/logger.ts';
import { SqliteEventLog } from './event-log.ts';
import { StateFile } from './state-file.ts';

test('an event that its client has seen may leave the log; a message that it has not seen leaves a gap', async () => {
  const clock = new FakeClock();
  const state = new StateFile({ path: ':memory:', clock, logger: Logger.silent() });
  const log = new SqliteEventLog(state, clock);
  const after = async (id: string, from = log): Promise<readonly [gap: boolean, ids: readonly string[]] | null> => {
    const found = await from.after('s', id);
    return found && [found.gap, found.events.map(({ eventId }) => eventId)];
  };
  const start = log.append('s', 'a', Buffer.alloc(0));
  await clock.advance(7 * 60_000);
  assert.equal(await after(start), null, 'nothing is kept');
  const one = log.append('s', 'a', Buffer.from('one'), start);
  assert.deepEqual(await after(start), [false, [one]], 'all that is lost is an event without data');
  assert.equal(await after(`${one}0`), null, 'an id that is not given out yet');
  const large = log.append('s', 'a', Buffer.alloc(1_100_000), one);
  assert.deepEqual(await after(one), [false, [large]], 'a large message takes the place of the one before');
  assert.deepEqual(await after(start), [true, [large]]);
  await clock.advance(7 * 60_000);
  const last = log.append('s', 'a', Buffer.from('last'), large);
  assert.deepEqual(await after(large), [false, [last]]);
  assert.deepEqual(await after(one), [true, [last]], 'the log knows of the gap although it dropped the stream');
  log.close();
  state.flush();
  const reopened = new SqliteEventLog(state, clock);
  assert.deepEqual(await after(large, reopened), [true, [last]], 'another process cannot exclude a gap');
  assert.deepEqual(await after(last, reopened), [false, []]);
});
