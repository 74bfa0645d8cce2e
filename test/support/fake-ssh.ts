import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import type { SshSpec } from '../../src/model/server.ts';
import { killAll } from './processes.ts';
import type { FarHost } from './ssh-server.ts';
import { fixture } from './stdio-bench.ts';

/**
 * A program called `ssh` that needs no sshd (`fixtures/stdio/fake-ssh.mjs`), for machines without one. It records its
 * arguments. The tests of the ssh transport run against it and, where sshd is installed, against the real pair.
 */
export class FakeSsh implements FarHost {
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-fake-ssh-'));
  readonly environment = { ...process.env, PATH: `${this.folder}/bin:${process.env['PATH']}` };

  constructor() {
    mkdirSync(join(this.folder, 'bin'));
    mkdirSync(join(this.folder, 'connections'));
    for (const key of ['user', 'stranger']) writeFileSync(join(this.folder, key), `key of ${key}\n`);
    const run = `FAKE_SSH_FOLDER='${this.folder}' exec '${process.execPath}' '${fixture('fake-ssh.mjs')}' "$@"`;
    writeFileSync(join(this.folder, 'bin', 'ssh'), `#!/bin/sh\n${run}\n`, { mode: 0o755 });
  }

  spec(change: Partial<SshSpec> = {}): SshSpec {
    return {
      host: '127.0.0.1',
      user: userInfo().username,
      port: 2222,
      identityFile: join(this.folder, 'user'),
      knownHostsFile: join(this.folder, 'known_hosts'),
      hostKeys: 'accept-new',
      controlMaster: false,
      ...change,
    };
  }

  breakConnections(): void {
    killAll(readdirSync(join(this.folder, 'connections')).map(Number));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.breakConnections();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
