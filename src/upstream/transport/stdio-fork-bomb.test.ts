import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { MARK, survivors } from '../../../test/support/processes.ts';
import { stdioBench, stdioSpec } from '../../../test/support/stdio-bench.ts';

/** A separate user, so that the process limit counts only the processes of this server. */
const BOMBER = '64123';
const PROCESSES = 60;

// Only root can start and limit processes of another user.
const possible = process.getuid?.() === 0 && existsSync('/usr/bin/setpriv') && existsSync('/usr/bin/prlimit');

if (possible) {
  test('fault:F41 a server that forks without end is stopped with all its processes; other servers go on', {
    timeout: 60_000,
  }, async () => {
    const mark = randomUUID();
    const bomb = `trap '' TERM; echo '{"up":1}'; f() { f & f & sleep 1; }; while :; do f; done`;
    const limited = ['--reuid', BOMBER, '--clear-groups', 'prlimit', `--nproc=${PROCESSES}`, 'sh', '-c', bomb];
    const bomber = stdioBench(stdioSpec('setpriv', limited, { env: { [MARK]: mark }, cwd: '/' }));
    await bomber.transport.open(bomber.receiver);
    await bomber.receiver.until(() => bomber.receiver.messages.length > 0);

    const neighbour = stdioBench(
      stdioSpec('sh', ['-c', `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"text":"fine"}}'`]),
    );
    await neighbour.transport.open(neighbour.receiver);
    assert.equal(await neighbour.text(1, {}), 'fine');
    await neighbour.transport.close('remove');

    await bomber.transport.close('interrupt');
    assert.deepEqual(await survivors(mark, 5000), []);
    assert.equal(bomber.guard.registered.size, 0);
  });
}
