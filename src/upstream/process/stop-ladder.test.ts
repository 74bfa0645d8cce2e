import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { MARK, markedProcesses, processCount, survivors } from '../../../test/support/processes.ts';
import { FAST_LADDER, fixture, type StdioBench, shellSpec, stdioBench } from '../../../test/support/stdio-bench.ts';
import type { CloseReason } from '../transport/transport.ts';
import { statOf } from './process-group.ts';
import { LADDER_TIMES, type LadderTimes } from './stop-ladder.ts';

const LIMIT = { timeout: 30_000 };
const folder = mkdtempSync(join(tmpdir(), 'trunkline-ladder-'));
const opened: StdioBench[] = [];
after(async () => {
  for (const { transport } of opened) await transport.close('interrupt');
  rmSync(folder, { recursive: true, force: true });
});

interface Started extends StdioBench {
  readonly mark: string;
  /** The file that the script of a test writes. */
  readonly trace: string;
}

/** Starts a shell script that says `up` when it is ready; `$TRACE` is a file of its own. */
async function start(script: string, processes: number, ladder: LadderTimes = FAST_LADDER): Promise<Started> {
  const mark = randomUUID();
  const trace = join(folder, mark);
  const env = { [MARK]: mark, TRACE: trace, NODE: process.execPath, SERVER: fixture('server.mjs') };
  const bench = stdioBench(shellSpec(script, { env }), { times: { ladder } });
  await bench.transport.open(bench.receiver);
  opened.push(bench);
  await bench.receiver.until(() => bench.receiver.messages.length > 0);
  assert.deepEqual(await processCount(mark, processes, 10_000), processes);
  return { ...bench, mark, trace };
}

const UP = `echo '{"up":true}'`;
const PATIENT: LadderTimes = {
  ...LADDER_TIMES,
  reasons: { ...FAST_LADDER.reasons, remove: { closeMs: 20_000, terminateMs: 20_000 } },
};

test('S2.9 S4.3 fault:F15 the ladder has the documented steps', () => {
  assert.deepEqual(LADDER_TIMES.reasons, {
    remove: { closeMs: 2000, terminateMs: 5000 },
    shutdown: { closeMs: 1000, terminateMs: 4000 },
    interrupt: { closeMs: 0, terminateMs: 2000 },
  });
});

test('S2.9 S4.3 check:B1 a server that ends with its input gets no signal', LIMIT, async () => {
  const { transport, trace, mark, receiver, guard } = await start(
    `trap 'echo term > "$TRACE"; exit' TERM; ${UP}; while read line; do :; done; sleep 0.1; echo ended > "$TRACE"`,
    1,
    PATIENT,
  );
  await transport.close('remove');
  assert.equal(readFileSync(trace, 'utf8'), 'ended\n');
  assert.deepEqual(markedProcesses(mark), []);
  assert.deepEqual(receiver.closedReasons, []);
  assert.equal(guard.registered.size, 0);
});

test('S2.9 check:B1 a server that ignores the end of its input gets SIGTERM and time to react', LIMIT, async () => {
  const { transport, trace, mark } = await start(
    `trap 'sleep 0.1; echo term > "$TRACE"; exit' TERM; ${UP}; while :; do sleep 0.02; done`,
    2,
    { ...FAST_LADDER, reasons: { ...FAST_LADDER.reasons, remove: { closeMs: 50, terminateMs: 20_000 } } },
  );
  await transport.close('remove');
  assert.equal(readFileSync(trace, 'utf8'), 'term\n');
  assert.deepEqual(await survivors(mark, 5000), []);
});

for (const reason of ['remove', 'shutdown', 'interrupt'] satisfies CloseReason[]) {
  test(
    `S2.9 S4.3 check:B1 check:A12 fault:F15 ${reason}: processes that ignore SIGTERM are killed with all their children`,
    LIMIT,
    async () => {
      const { transport, mark, guard } = await start(
        `trap '' TERM; sleep 600 & sh -c 'sleep 600; :' & ${UP}; sleep 600; :`,
        5,
      );
      await transport.close(reason);
      assert.deepEqual(markedProcesses(mark), []);
      assert.equal(guard.registered.size, 0);
    },
  );
}

test('check:B1 fault:F15 a wrapper that dies at once leaves no server behind', LIMIT, async () => {
  // As with npx: the shell is our child, the server its child; a close that signals only our child would miss the server.
  const { transport, mark, text } = await start(`${UP}; "$NODE" "$SERVER"; :`, 2);
  assert.equal(await text(1, { do: 'echo', text: 'through the shell' }), 'through the shell');
  await transport.close('interrupt');
  assert.deepEqual(markedProcesses(mark), []);
});

test('check:A12 fault:F15 grandchildren of a crashed server are ended without a request', LIMIT, async () => {
  const { transport, mark, receiver } = await start(`trap '' TERM; sleep 600 & sleep 600 & ${UP}; read line`, 3);
  process.kill(transport.pid!, 'SIGKILL');
  await receiver.until(() => receiver.closedReasons.length > 0);
  assert.deepEqual(await survivors(mark, 10_000), []);
  await transport.close('remove');
});

test('fault:F15 a stopped process (SIGSTOP) is ended by SIGTERM', LIMIT, async () => {
  const { transport, mark, trace } = await start(
    `trap 'echo term > "$TRACE"; exit' TERM; ${UP}; kill -STOP $$; sleep 600`,
    1,
  );
  while (statOf(transport.pid!)?.state !== 'T') await sleep(5);
  await transport.close('interrupt');
  assert.ok(existsSync(trace));
  assert.deepEqual(markedProcesses(mark), []);
});

test('fault:F15 a more urgent close shortens a patient one', LIMIT, async () => {
  const { transport, mark } = await start(`trap '' TERM; ${UP}; sleep 600; :`, 2, PATIENT);
  const patient = transport.close('remove');
  await transport.close('interrupt');
  await patient;
  assert.deepEqual(markedProcesses(mark), []);
});

test('fault:F15 a process that SIGKILL does not end at once is guarded until it has ended', LIMIT, async (t) => {
  const ladder = { ...FAST_LADDER, giveUpMs: 50 };
  const { transport, mark, log, guard } = await start(`trap '' TERM; ${UP}; exec sleep 600`, 1, ladder);
  const group = transport.pid!;
  const kill = process.kill.bind(process);
  // As if it were in a system call that nothing interrupts.
  const stuck = (pid: number, signal: NodeJS.Signals | 0): boolean => signal === 'SIGKILL' || kill(pid, signal);
  t.mock.method(process, 'kill', stuck);
  await transport.close('interrupt');
  assert.deepEqual([log.of('process_unkillable').length, guard.registered.has(group)], [1, true]);
  t.mock.restoreAll();
  process.kill(-group, 'SIGKILL');
  while (guard.registered.size > 0) await sleep(5);
  assert.deepEqual(markedProcesses(mark), []);
});
