import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { RecordingReceiver } from '../../../test/contracts/recording-receiver.ts';
import { transportContract } from '../../../test/contracts/transport.contract.ts';
import { FakeSsh } from '../../../test/support/fake-ssh.ts';
import { MARK, processCount, survivors } from '../../../test/support/processes.ts';
import { relayBench } from '../../../test/support/relay-bench.ts';
import { type FarHost, NO_SSHD, SshServer } from '../../../test/support/ssh-server.ts';
import { nodeSpec, shellSpec, stdioBench, stdioSpec } from '../../../test/support/stdio-bench.ts';
import type { SshSpec, StdioSpec } from '../../model/server.ts';

const ODD = ` a'b"c $HOME \\ \\n\n%s é * ~ ; # ! `;
const NOTIFICATION = '{"jsonrpc":"2.0","method":"notifications/message"}';

/** The fake runs everywhere; if sshd is installed, the same tests show that the real pair behaves alike. */
const HOSTS: readonly { name: string; skip: string | false; start: () => Promise<FarHost> }[] = [
  { name: 'a fake ssh', skip: false, start: async () => new FakeSsh() },
  { name: 'ssh and sshd', skip: NO_SSHD, start: () => SshServer.start() },
];

for (const { name, skip, start } of HOSTS)
  describe(`with ${name}`, { skip }, () => {
    let sshd: FarHost;
    before(async () => {
      sshd = await start();
    });
    after(() => sshd[Symbol.asyncDispose]());
    const benchOf = (spec: StdioSpec) => stdioBench(spec, { environment: sshd.environment });

    transportContract({
      name: 'ssh',
      pushes: true,
      emits: true,
      endsWithServer: true,
      start: (receiver) =>
        relayBench(receiver, (port) => benchOf(nodeSpec('relay.mjs', [port], { ssh: sshd.spec() })).transport),
    });

    test('S2.23 check:B3 arguments, environment and folder reach the other host unchanged, and secrets not as arguments', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'trunkline-ssh-far-'));
      try {
        const script = `printf %s "$1" >1; printf %s "$ODD" >2; printf %s "$#" >3; pwd >4; printf '${NOTIFICATION}\\n'; exec cat`;
        const env = { ODD, SECRET_KEY: 'k-5d1a90' };
        const spec = stdioSpec('sh', ['-c', script, 'sh', ODD, ''], { env, cwd: folder, ssh: sshd.spec() });
        const bench = benchOf(spec);
        const receiver = new RecordingReceiver();
        await bench.transport.open(receiver);
        await receiver.until(() => receiver.messages.length === 1);
        const processes = execFileSync('ps', ['-eo', 'args='], { encoding: 'utf8' });
        assert.ok(processes.includes('BatchMode=yes'), 'ssh is running');
        assert.ok(!processes.includes('k-5d1a90'), 'no secret among the arguments of any process');
        await bench.transport.close('remove');
        const reported = ['1', '2', '3', '4'].map((name) => readFileSync(join(folder, name), 'utf8'));
        assert.deepEqual(reported, [ODD, ODD, '2', `${folder}\n`]);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });

    test('S2.23 `~/` in the command and the folder is the home folder of the other host; arguments stay as they are', async () => {
      const home = mkdtempSync(join(tmpdir(), 'trunkline-ssh-home-'));
      try {
        mkdirSync(join(home, 'a b'));
        const script = `#!/bin/sh\nprintf '%s|' "$PWD" "$@" >"$HOME/said"; printf '${NOTIFICATION}\\n'; exec cat\n`;
        writeFileSync(join(home, 'a b', 'server'), script, { mode: 0o755 });
        for (const [cwd, folder] of [
          ['~', home],
          ['~/a b', join(home, 'a b')],
        ] as const) {
          const spec = stdioSpec('~/a b/server', ['~/x', '~'], { env: { HOME: home }, cwd, ssh: sshd.spec() });
          const bench = benchOf(spec);
          const receiver = new RecordingReceiver();
          await bench.transport.open(receiver);
          await receiver.until(() => receiver.messages.length === 1 || receiver.closedReasons.length > 0);
          await bench.transport.close('remove');
          assert.equal(readFileSync(join(home, 'said'), 'utf8'), `${folder}|~/x|~|`, bench.transport.stderrTail());
        }
      } finally {
        rmSync(home, { recursive: true, force: true });
      }
    });

    test('S2.23 an unknown user is refused with the reason, and so is an unknown host if keys are required', async () => {
      for (const [change, reason] of [
        [{ identityFile: join(sshd.folder, 'stranger') }, /Permission denied/],
        [{ knownHostsFile: join(sshd.folder, 'nobody'), hostKeys: 'yes' }, /Host key verification failed/],
      ] as const) {
        const bench = benchOf(stdioSpec('cat', [], { ssh: sshd.spec(change) }));
        const receiver = new RecordingReceiver();
        await bench.transport.open(receiver);
        await receiver.until(() => receiver.closedReasons.length > 0);
        assert.deepEqual(receiver.closedReasons[0], { kind: 'exited', code: 255, signal: null });
        assert.match(bench.transport.stderrTail(), reason);
        await bench.transport.close('remove');
      }
    });

    test('S2.23 fault:F15 neither a server that ignores every signal nor its children survive its removal', async () => {
      const mark = 'ssh-removed';
      const stubborn = `trap '' TERM HUP INT; sleep 300 & printf '${NOTIFICATION}\\n'; while :; do sleep 300; done`;
      const bench = benchOf(shellSpec(stubborn, { env: { [MARK]: mark }, cwd: '/', ssh: sshd.spec() }));
      const receiver = new RecordingReceiver();
      await bench.transport.open(receiver);
      await receiver.until(() => receiver.messages.length === 1);
      assert.ok((await processCount(mark, 4, 20_000)) >= 3);
      await bench.transport.close('remove');
      assert.deepEqual(await survivors(mark, 30_000), []);
    });

    test('S2.23 a broken connection ends the server behind it, on both sides', async () => {
      const mark = 'ssh-broken';
      const script = `sleep 300 & printf '${NOTIFICATION}\\n'; exec sleep 301`;
      const bench = benchOf(shellSpec(script, { env: { [MARK]: mark }, cwd: '/', ssh: sshd.spec() }));
      const receiver = new RecordingReceiver();
      await bench.transport.open(receiver);
      await receiver.until(() => receiver.messages.length === 1);
      sshd.breakConnections();
      await receiver.until(() => receiver.closedReasons.length > 0);
      await bench.transport.close('remove');
      assert.deepEqual(await survivors(mark, 30_000), []);
    });
  });

test('S2.23 the argument list of ssh cannot contain a smuggled option', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-ssh-argv-'));
  try {
    writeFileSync(join(folder, 'ssh'), `#!/bin/sh\nfor a in "$@"; do echo "$a" >> ${folder}/argv; done\n`, {
      mode: 0o755,
    });
    const argv = async (change: Partial<SshSpec>): Promise<string[]> => {
      const plain: SshSpec = {
        host: 'h',
        user: 'u',
        port: 22,
        identityFile: null,
        knownHostsFile: null,
        hostKeys: 'accept-new',
        controlMaster: false,
      };
      rmSync(join(folder, 'argv'), { force: true });
      const spec = stdioSpec('server', ['a b'], { ssh: { ...plain, ...change }, cwd: '' });
      const bench = stdioBench(spec, { environment: { PATH: `${folder}:/usr/bin:/bin` } });
      const receiver = new RecordingReceiver();
      await bench.transport.open(receiver);
      await receiver.until(() => receiver.closedReasons.length > 0);
      await bench.transport.close('remove');
      return execFileSync('cat', [join(folder, 'argv')], { encoding: 'utf8' })
        .trimEnd()
        .split('\n');
    };
    const standard = ['-o', 'BatchMode=yes', '-o', 'StrictHostKeyChecking=accept-new'];
    const plain = await argv({});
    assert.deepEqual(plain.slice(0, -1), [...standard, 'u@h']);
    assert.match(plain.at(-1)!, /^exec 'sh' '-c' '.*' 'trunkline' '' 'server' 'a b'$/);
    const full = await argv({ identityFile: '/k', port: 2222, user: null });
    assert.deepEqual(full.slice(0, -1), [...standard, '-i', '/k', '-p', '2222', 'h']);
    const strict = await argv({ hostKeys: 'yes', knownHostsFile: '/a b%', controlMaster: true });
    assert.deepEqual(strict.slice(2, 6), ['-o', 'StrictHostKeyChecking=yes', '-o', 'UserKnownHostsFile="/a b%%"']);
    assert.ok(strict.includes('ControlMaster=auto'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
