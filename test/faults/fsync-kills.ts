import { execFileSync, spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../../src/model/clock.ts';
import { StoredServers } from '../../src/registry/stored-definitions.ts';
import { SqliteRunTimeStore } from '../../src/store/run-time-store/sqlite-run-time-store.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { type Desire, desireAfter, STEPS } from './run-time-store-steps.ts';

const WRITER = resolve(import.meta.dirname, 'run-time-store-writer.ts');

/** Whether a process can be killed at a system call of our choice here. */
export function canKillAtFsync(): boolean {
  try {
    execFileSync('strace', ['-qq', '-e', 'trace=none', 'true'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

export interface FsyncKill {
  /** Whether the writer reached that fsync; otherwise it has done all steps. */
  readonly killed: boolean;
  readonly acknowledged: number;
  /** Lost or incomplete steps; null if the state is correct. */
  readonly violation: string | null;
}

/**
 * Runs the writer on an empty store in `folder` and kills it as it enters its n-th fsync. The file must then hold the
 * state after the acknowledged steps, or after one more: the step in progress may be done or not.
 */
export async function killAtFsync(folder: string, n: number): Promise<FsyncKill> {
  const file = join(folder, `truth-${n}.db`);
  const inject = `inject=fsync,fdatasync:signal=KILL:when=${n}`;
  const traced = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=fsync,fdatasync', '-e', inject];
  const child = spawn('strace', [...traced, process.execPath, WRITER, file, '0'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const signal = await new Promise((done) => child.once('close', (_code, by) => done(by)));
  const acknowledged = out.split('\n').length - 1;
  const killed = signal === 'SIGKILL';
  if (!killed && acknowledged < STEPS) return { killed, acknowledged, violation: err };
  return { killed, acknowledged, violation: await violationOf(file, acknowledged) };
}

/** Why a file does not hold the state after the acknowledged steps, or one more; null if it does. */
export async function violationOf(file: string, acknowledged: number): Promise<string | null> {
  let found: Desire;
  try {
    const runTimeStore = new SqliteRunTimeStore({ path: file, clock: systemClock, logger: Logger.silent() });
    const { servers, suspended } = await new StoredServers(runTimeStore).read();
    found = { servers: new Map([...servers].map(([name, { text }]) => [name, text])), suspended: new Set(suspended) };
    await runTimeStore.close();
  } catch (error) {
    return `after ${acknowledged} steps it does not open: ${error}`;
  }
  const may = [desireAfter(acknowledged), desireAfter(Math.min(STEPS, acknowledged + 1))];
  if (may.some((desire) => isDeepStrictEqual(sorted(desire), sorted(found)))) return null;
  return `after ${acknowledged} steps it holds ${JSON.stringify(sorted(found).map(([name]) => name))}`;
}

function sorted({ servers, suspended }: Desire): (readonly [string, string])[] {
  const all = [...servers, ...[...suspended].map((name) => [`${name} suspended`, ''] as const)];
  return all.sort(([a], [b]) => (a < b ? -1 : 1));
}
