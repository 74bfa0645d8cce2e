import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { UsedSessions } from './used-sessions.ts';

const SESSIONS = 200;
const HELLO_BYTES = 100_000;

test('a server’s handshake result is kept once for all its sessions', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const state = { bucket: () => ({ incarnation: 'i' }) };
  const deps = { clock: new FakeClock(), logger: Logger.silent(), state } as unknown as ClusterDeps;
  const sessions = new UsedSessions(deps);
  /** Each record has a string of its own, as if read from the store. */
  const put = (key: string): void => {
    const hello = Buffer.alloc(HELLO_BYTES, 'h').toString('latin1');
    const record = { identity: 'web', mcpSessionId: key, hello, revision: '2025-11-25', fingerprint: '{}' };
    sessions.put(key, record, 'i.1', { published: true });
  };
  put('first');
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < SESSIONS; i++) put(`s${i}`);
  collect();
  const grown = process.memoryUsage().heapUsed - before;
  assert.ok(grown < (SESSIONS * HELLO_BYTES) / 10, `the heap has grown by ${grown} bytes`);
  assert.equal(sessions.get('s9')!.record.hello.length, HELLO_BYTES);
});

test('a session that is too large for the store does not prevent the publication of others', async () => {
  const clock = new FakeClock();
  const lines: string[] = [];
  const sessions = new UsedSessions({
    bus: { peer: 'a', connected: true } as ClusterDeps['bus'],
    state: new MemorySharedState(clock),
    clock,
    logger: new Logger({ level: 'warn', write: (line) => lines.push(line) }),
    sealing: { seal: (_context, text) => text, open: (_context, sealed) => sealed },
  });
  const opened = (key: string, helloBytes: number): void => {
    const hello = 'h'.repeat(helloBytes);
    const record = { identity: key, mcpSessionId: key, hello, revision: '2025-11-25', fingerprint: '{}' };
    sessions.put(key, record, sessions.ownGeneration(), { published: false });
  };
  // Left by an attempt to open the session that got no answer of the store.
  await sessions.write('large', { by: 'a', since: null, replaces: false, sealed: '' }, null);
  opened('large', 600_000);
  for (let i = 0; i < SESSIONS; i++) opened(`s${i}`, 100);
  await clock.advance(60_000);
  const published = (await sessions.bucket.keys()).filter((key) => sessions.get(key)?.published);
  assert.equal(published.length, SESSIONS);
  assert.deepEqual([sessions.get('large')?.unsharable, await sessions.read('large')], [true, null]);
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).event),
    ['server_session_not_shared'],
  );
});
