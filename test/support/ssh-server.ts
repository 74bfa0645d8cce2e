import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { SshSpec } from '../../src/model/server.ts';
import { freePort } from './free-port.ts';

/** The other host in tests of the ssh transport: a real sshd, or `FakeSsh`. */
export interface FarHost extends AsyncDisposable {
  /** Holds `user`, the key that is let in, and `stranger`, one that is not. */
  readonly folder: string;
  /** The environment in which `ssh` is found. */
  readonly environment: NodeJS.ProcessEnv;
  /** How its user reaches it. */
  spec(change?: Partial<SshSpec>): SshSpec;
  /** Breaks every connection, as a network does. */
  breakConnections(): void;
}

/** Why there is no sshd to test with; false where there is one. */
export const NO_SSHD: string | false = executable('/usr/sbin/sshd') ? false : 'sshd is not installed';

/** A real sshd of the test's own, on loopback, that lets the present user in with one key. */
export class SshServer implements FarHost {
  readonly folder: string;
  readonly environment = process.env;
  readonly port: number;
  readonly #daemon: ChildProcess;

  private constructor(folder: string, port: number, daemon: ChildProcess) {
    this.folder = folder;
    this.port = port;
    this.#daemon = daemon;
  }

  static async start(): Promise<SshServer> {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-ssh-'));
    for (const key of ['host', 'user', 'stranger']) {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, key)]);
    }
    // As root, sshd needs its folder for privilege separation, which its service file creates otherwise.
    if (userInfo().uid === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });
    const port = await freePort();
    const settings = [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${join(folder, 'host')}`,
      `AuthorizedKeysFile ${join(folder, 'user.pub')}`,
      'PidFile none',
      'UsePAM no',
      'StrictModes no',
      'PasswordAuthentication no',
      'KbdInteractiveAuthentication no',
      'PermitRootLogin prohibit-password',
      'MaxStartups 100',
    ];
    writeFileSync(join(folder, 'sshd_config'), `${settings.join('\n')}\n`);
    const daemon = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', join(folder, 'sshd_config')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    for await (const line of createInterface(daemon.stderr!)) if (line.includes('listening on')) break;
    daemon.stderr!.resume();
    return new SshServer(folder, port, daemon);
  }

  spec(change: Partial<SshSpec> = {}): SshSpec {
    return {
      host: '127.0.0.1',
      user: userInfo().username,
      port: this.port,
      identityFile: join(this.folder, 'user'),
      knownHostsFile: join(this.folder, 'known_hosts'),
      hostKeys: 'accept-new',
      controlMaster: false,
      ...change,
    };
  }

  /** Breaks every connection, as a network does: the daemon's processes for them are killed, nothing else. */
  breakConnections(): void {
    const children = execFileSync('ps', ['-eo', 'pid=,ppid=,comm='], { encoding: 'utf8' })
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, parent]) => parent === String(this.#daemon.pid));
    for (const [pid] of children) process.kill(Number(pid), 'SIGKILL');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.breakConnections();
    this.#daemon.kill('SIGTERM');
    if (this.#daemon.exitCode === null && this.#daemon.signalCode === null) await once(this.#daemon, 'exit');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function executable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
