import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { nodeSpec, RecordingLog, stdioBench } from '../../../test/support/stdio-bench.ts';
import { MessageReader } from './line-transport.ts';

const MIB = 1024 * 1024;
const LIMIT = { timeout: 60_000 };

test(
  'fault:F06 only a line of 60 MiB is lost: later messages are delivered, and memory grows by at most 64 MiB',
  LIMIT,
  async () => {
    const { transport, receiver, text, log } = stdioBench(nodeSpec('server.mjs'));
    await transport.open(receiver);
    await text(1, { do: 'echo', text: 'up' });
    const before = process.resourceUsage().maxRSS;
    assert.equal(await text(2, { do: 'flood', n: 60, fill: 'x' }), 'done');
    assert.equal(await text(3, { do: 'echo', text: 'after' }), 'after');
    const grownMiB = (process.resourceUsage().maxRSS - before) / 1024;
    assert.ok(grownMiB <= 64, `${grownMiB} MiB`);
    assert.equal(log.of('message_too_large').length, 1);
    assert.deepEqual(receiver.losses, []);
    await transport.close('interrupt');
  },
);

for (const fill of ['x', 'x\n', '{']) {
  test(`fault:F06 a flood of ${JSON.stringify(fill)} ends the connection and the process`, LIMIT, async () => {
    const { transport, receiver, text, ask, guard } = stdioBench(nodeSpec('server.mjs'), { clock: new FakeClock() });
    await transport.open(receiver);
    await text(1, { do: 'echo', text: 'up' });
    ask(2, { do: 'hold' });
    ask(3, { do: 'flood', n: 160, fill });
    await receiver.until(() => receiver.closedReasons.length > 0);
    assert.equal(receiver.closedReasons[0]?.kind, 'protocol');
    assert.deepEqual(
      receiver.losses.map(({ request, error }) => [request, error.outcome]),
      [
        [2, 'UNKNOWN'],
        [3, 'UNKNOWN'],
      ],
    );
    await transport.close('interrupt');
    assert.equal(guard.registered.size, 0);
  });
}

test('fault:F06 counted junk expires with time', () => {
  const clock = new FakeClock();
  let flooded = false;
  const reader = new MessageReader(
    { message: () => {}, tooLarge: () => {}, flooded: () => (flooded = true) },
    { logger: new RecordingLog(), clock, maxMessageBytes: 1000, maxJunkBytesPerMinute: 1000 },
  );
  const minute = async (bytes: number): Promise<boolean> => {
    reader.push(Buffer.from(`${'j'.repeat(bytes)}\n`));
    await clock.advance(60_000);
    return flooded;
  };
  return (async () => {
    for (let i = 0; i < 5; i++) assert.equal(await minute(900), false);
    reader.push(Buffer.from(`${'j'.repeat(900)}\n`));
    assert.equal(await minute(900), true);
  })();
});

test('fault:F06 CPU grows with the bytes, not with their square', () => {
  for (const [maxMessageBytes, chunkBytes] of [
    [16 * MIB, 64 * 1024],
    [1024 * MIB, 1024],
  ] as const) {
    const cost = (mib: number): number => {
      const reader = new MessageReader(
        { message: () => {}, tooLarge: () => {}, flooded: () => assert.fail() },
        {
          logger: new RecordingLog(),
          clock: new FakeClock(),
          maxMessageBytes,
          maxJunkBytesPerMinute: 1024 * MIB,
        },
      );
      const chunk = Buffer.alloc(chunkBytes, 'x');
      const before = process.cpuUsage();
      for (let sent = 0; sent < mib * MIB; sent += chunkBytes) reader.push(chunk);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    const least = (mib: number): number => Math.min(cost(mib), cost(mib), cost(mib));
    const small = least(32);
    const large = least(128);
    // Four times the bytes; sixteen times the cost if it were quadratic.
    assert.ok(
      large < 10 * small + 20_000,
      `${small} µs for 32 MiB, ${large} µs for 128 MiB in pieces of ${chunkBytes}`,
    );
  }
});
