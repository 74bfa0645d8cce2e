import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { ANONYMOUS, type ClientProfile } from '../../model/client-profile.ts';
import { serverEndpoint } from '../../model/exchange.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../logger.ts';
import { Recorder } from './recorder.ts';

/** `open` opens the recorder of the same folder again. */
function recorder(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-recordings-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const clock = new FakeClock();
  const events = { changed() {} };
  const open = () =>
    new Recorder({ clock, random: systemRandom, logger: Logger.silent(), events, folder, nodes: null });
  const first = open();
  const target = { session: null, client: null, principal: null, server: 's', node: null };
  const start = async (): Promise<string> => {
    await clock.advance(1_000);
    return (await first.start(target, { maxEntries: 10, maxBytes: 10_000 }, null))!.head.id;
  };
  return { open, first, start };
}

test('recordings are listed in the order of their start, after a restart too', async (t) => {
  const { open, first, start } = recorder(t);
  const started: string[] = [];
  for (let at = 0; at < 10; at++) started.push(await start());
  first.close();
  const listed = await open().list();
  assert.deepEqual(
    listed.map(({ head }) => head.id),
    started,
  );
});

test('recordings of an earlier process are listed as they were, and are read one after the other', async (t) => {
  const { open, first, start } = recorder(t);
  for (let at = 0; at < 8; at++) await start();
  const client: ClientProfile = {
    principal: ANONYMOUS,
    sessionId: 'id',
    revision: '2025-11-25',
    capabilities: '{}',
    fingerprint: '',
    info: '{"name":"c","message":"m"}',
    logLevel: null,
    handle: null,
  };
  // Its members have the names of those of a recorded line.
  const message = [Buffer.from('{"seq":9,"session":"x","server":"x","stopped":"x","message":"m"}')];
  first.client(client, serverEndpoint('s'), 'client', message, null);
  first.server({ server: 's', label: 's#1', sessionId: null }, 'server', message, null);
  first.close();
  const before = (await first.list()).map(({ view }) => view);
  assert.deepEqual(
    before.map(({ entries, servers, sessions }) => [entries, servers, sessions.length]),
    before.map(() => [2, ['s'], 1]),
  );
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const after = await open().list();
  isOver = true;
  assert.deepEqual(
    after.map(({ view }) => view),
    before,
  );
  assert.ok(turns >= after.length, `${turns} turns of the event loop`);
});
