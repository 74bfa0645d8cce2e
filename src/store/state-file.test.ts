import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { Logger } from '../telemetry/logger.ts';
import { StateFile } from './state-file.ts';

test('queued writes of event logs are dropped while the disk is full, and the disk is tried once a second', async () => {
  const clock = new FakeClock();
  const state = new StateFile({ path: ':memory:', clock, logger: Logger.silent() });
  const insert = state.prepare("INSERT INTO records (bucket, key, value, sum) VALUES ('log', ?, zeroblob(100000), 0)");
  const limit = (pages: number) => state.prepare(`PRAGMA max_page_count = ${pages}`).get();
  let [number, attempts] = [0, 0];
  const written: number[] = [];
  const enqueue = (count: number) => {
    for (let i = 0; i < count; i++) {
      const key = number++;
      state.enqueue({
        bytes: 100_000,
        run: () => {
          attempts++;
          insert.run(`${key}`);
          written.push(key);
        },
      });
    }
  };
  limit(10);
  for (let second = 0; second < 5; second++) {
    for (let i = 0; i < 10; i++) {
      enqueue(10);
      await clock.advance(100);
    }
  }
  assert.ok(attempts <= 6, `${attempts} attempts in 5 s`);
  assert.equal(state.writable, false);
  limit(100_000);
  written.length = 0;
  await clock.advance(1_000);
  assert.equal(state.writable, true);
  assert.ok(written.length <= 100, `${written.length} of 500 were kept`);
  state.close();
});
