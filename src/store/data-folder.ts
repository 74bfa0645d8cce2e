import { chmodSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** What a running gateway tells about itself in its data folder, for the commands and a second gateway. */
export interface Instance {
  readonly pid: number;
  readonly version: string;
  readonly mcpUrl: string;
  readonly controlUrl: string;
  /** Configuration files it serves, absolute. */
  readonly files: readonly string[];
  readonly startedAt: number;
}

/** Who only looks whether the folder is taken has the lock for an instant; that is waited for. */
const GLANCE_MS = 100;

/** `TRUNKLINE_DATA_DIR` and `--data-dir` come resolved; otherwise the XDG state folder. */
export function defaultDataDir(env: Readonly<Record<string, string | undefined>>): string {
  const state = env['XDG_STATE_HOME'];
  return resolve(state !== undefined && state !== '' ? state : join(homedir(), '.local', 'state'), 'trunkline');
}

/**
 * The folder where one gateway keeps what outlives it; only its user can read it.
 *
 * One gateway per folder: `acquire` takes a lock that the kernel releases when the process ends, however it ends
 * (an exclusive SQLite transaction on a file of its own), so a stale lock cannot exist. Whoever holds the folder keeps
 * the object: when it is collected, the lock is gone.
 */
export class DataFolder {
  readonly path: string;
  #lock: DatabaseSync | null = null;

  constructor(path: string) {
    this.path = path;
  }

  /** Whether this process has the folder. */
  get held(): boolean {
    return this.#lock !== null;
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** Takes the folder; false when another process has it. */
  acquire(): boolean {
    if (this.#lock !== null) return true;
    mkdirSync(this.path, { recursive: true, mode: 0o700 });
    let lock = this.#tryLock();
    if (lock === 'damaged') {
      this.#mendLock();
      lock = this.#tryLock();
    }
    if (lock === 'damaged') throw this.#unusable(new Error('it is damaged'));
    if (lock === null) return false;
    this.#lock = lock;
    // Of one that was killed.
    rmSync(this.file('instance.json'), { force: true });
    return true;
  }

  /** null when another process has it. Throws where no file of this name can be had. */
  #tryLock(): DatabaseSync | 'damaged' | null {
    let lock: DatabaseSync | null = null;
    try {
      lock = new DatabaseSync(this.file('lock.db'));
      lock.exec(`PRAGMA busy_timeout = ${GLANCE_MS}; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE`);
      return lock;
    } catch (error) {
      lock?.close();
      if (isBusy(error)) return null;
      if (isDamaged(error)) return 'damaged';
      throw this.#unusable(error);
    }
  }

  /**
   * The file holds nothing, and whoever has it would have kept us from seeing what is in it: emptied it is as good as
   * new. In place, so that two who do this at once still have one file to contend for.
   */
  #mendLock(): void {
    try {
      truncateSync(this.file('lock.db'));
      rmSync(this.file('lock.db-journal'), { force: true });
    } catch (error) {
      throw this.#unusable(error);
    }
  }

  #unusable(cause: unknown): Error {
    const words = cause instanceof Error ? cause.message : String(cause);
    const text = `the lock ${this.file('lock.db')} cannot be used: ${words}`;
    return new Error(`${text}; make it writable or remove it, it holds nothing`, { cause });
  }

  /**
   * Who runs on this folder; null when nobody does or it has not come up yet. What a gateway that was killed left
   * behind is nobody, whoever has its process id now: the lock says whether anybody is there. Touches nothing.
   */
  instance(): Instance | null {
    try {
      if (!this.#taken()) return null;
      return JSON.parse(readFileSync(this.file('instance.json'), 'utf8')) as Instance;
    } catch {
      return null;
    }
  }

  publish(instance: Instance): void {
    writeFileSync(this.file('instance.json'), `${JSON.stringify(instance, null, 2)}\n`, { mode: 0o600 });
  }

  /** The key of the control API, readable by the user only; the same over restarts unless the file is removed. */
  controlToken(create: () => string): string {
    return this.#token('control.token', create);
  }

  /** What proves the right to run programs by the control API, as the other. */
  execToken(create: () => string): string {
    return this.#token('exec.token', create);
  }

  #token(name: string, create: () => string): string {
    const path = this.file(name);
    try {
      const token = readFileSync(path, 'utf8').trim();
      if (token.length >= 32) {
        chmodSync(path, 0o600);
        return token;
      }
    } catch {
      // Not there yet: made below.
    }
    const token = create();
    writeFileSync(path, `${token}\n`, { mode: 0o600 });
    // The mode above is for a new file only.
    chmodSync(path, 0o600);
    return token;
  }

  /** Whether anybody has the folder. Throws where there is none yet. */
  #taken(): boolean {
    if (this.#lock !== null) return true;
    const lock = new DatabaseSync(this.file('lock.db'), { readOnly: true });
    try {
      lock.exec('PRAGMA busy_timeout = 0; SELECT 1 FROM sqlite_master');
      return false;
    } catch (error) {
      if (isBusy(error)) return true;
      throw error;
    } finally {
      lock.close();
    }
  }

  release(): void {
    if (this.#lock === null) return;
    rmSync(this.file('instance.json'), { force: true });
    this.#lock.close();
    this.#lock = null;
  }
}

function isBusy(error: unknown): boolean {
  return codeOf(error) === 5 || codeOf(error) === 6;
}

/** SQLITE_CORRUPT, SQLITE_NOTADB */
function isDamaged(error: unknown): boolean {
  return codeOf(error) === 11 || codeOf(error) === 26;
}

/** The primary result code of SQLite. */
function codeOf(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0;
}
