import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../logger.ts';
import { Recorder } from './recorder.ts';

test('recordings are listed in the order of their start, after a restart too', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-recordings-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const clock = new FakeClock();
  const events = { changed() {} };
  const open = () =>
    new Recorder({ clock, random: systemRandom, logger: Logger.silent(), events, folder, nodes: null });
  const first = open();
  const target = { session: null, client: null, principal: null, server: 's', node: null };
  const started: string[] = [];
  for (let at = 0; at < 10; at++) {
    const recording = await first.start(target, { maxEntries: 10, maxBytes: 1_000 }, null);
    started.push(recording!.head.id);
    await clock.advance(1_000);
  }
  first.close();
  const listed = open().list();
  assert.deepEqual(
    listed.map(({ head }) => head.id),
    started,
  );
});
