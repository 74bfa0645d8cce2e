import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { messageOf } from '../model/thrown.ts';
import { sqliteCode } from './sqlite-code.ts';

/** What a running gateway publishes in its data folder for the commands and for a second gateway. */
export interface Instance {
  readonly pid: number;
  readonly version: string;
  readonly mcpUrl: string;
  readonly controlUrl: string;
  readonly files: readonly string[];
  /** The server's command line that was given instead of or with files; null or absent: none. */
  readonly command?: readonly string[] | null;
  /** Absent if written by an earlier version. */
  readonly cwd?: string;
  /** The command line that restarts it in the background; null or absent: it does not run in the background. */
  readonly words?: readonly string[] | null;
  readonly startedAt: number;
}

/** The gateway that a folder belongs to, recorded in the folder. */
interface Serving {
  /** null: the gateway without a configuration file. */
  readonly place: string | null;
  /** The parent folder, which must be equally private. */
  readonly within: DataFolder | null;
}

/** A data folder, or a file in it, is unusable or unsafe. */
export class FolderUnusable extends Error {
  readonly remedy: string;
  /** Other users may have written it. */
  readonly untrusted: boolean;

  constructor(message: string, remedy: string, options: ErrorOptions & { untrusted?: boolean } = {}) {
    super(message, options);
    this.remedy = remedy;
    this.untrusted = options.untrusted ?? false;
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  EROFS: 'the file system is read-only',
  ENOTDIR: 'a part of its path is no folder',
  EEXIST: 'it is no folder',
  ENOENT: 'its path cannot be made (a part of it is missing or read-only)',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota of this user is used up',
};
const ANOTHER = 'name a folder that this user may write: --data-dir <folder>, TRUNKLINE_DATA_DIR or data.dir';
/** Files that control the gateway: a user who could write one of them would be its operator. */
const CONTROL_FILES = [
  'lock.db',
  'control.token',
  'exec.token',
  'credentials.key',
  'truth.db',
  'store.copy',
  'instance.json',
  'serves.json',
  'ports.json',
  'gateway.log',
];
const WRITE_BY_OTHERS = 0o022;
const WRITABLE = fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK;

/** A process that only checks the lock holds it for an instant; `acquire` waits this long for it. */
const LOCK_WAIT_MS = 100;

/** As `mkdir -p`. With `recursive`, Node loops for ever in a folder, such as /proc, that accepts no new entries. */
function makeFolder(path: string): void {
  try {
    fs.mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return;
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || fs.existsSync(dirname(path))) throw error;
    makeFolder(dirname(path));
    makeFolder(path);
  }
}

/** The XDG state folder, for gateways without `TRUNKLINE_DATA_DIR` and `--data-dir`. */
export function defaultDataDir(env: Readonly<Record<string, string | undefined>>): string {
  const state = env['XDG_STATE_HOME'];
  return resolve(state !== undefined && state !== '' ? state : join(homedir(), '.local', 'state'), 'trunkline');
}

/**
 * The private folder of one gateway. Its lock, an exclusive SQLite transaction, ends with the process, so a stale lock cannot
 * exist. Keep a reference to the object: the lock ends when it is garbage-collected.
 */
export class DataFolder {
  readonly path: string;
  readonly #serving: Serving | null;
  #lock: DatabaseSync | null = null;

  constructor(path: string, serving: Serving | null = null) {
    this.path = path;
    this.#serving = serving;
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** Whether the folder may contain something; true if this process cannot read it. */
  get mayHoldState(): boolean {
    if (this.#serving?.within?.mayHoldState === true) return true;
    try {
      fs.lstatSync(this.path);
    } catch {
      return false;
    }
    try {
      return fs.readdirSync(this.path).length > 0;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code !== 'ENOTDIR';
    }
  }

  /** Creates the folder if it is missing. Throws FolderUnusable if it is not writable, or writable by other users. */
  prepare(): void {
    this.#serving?.within?.prepare();
    try {
      makeFolder(this.path);
      fs.accessSync(this.path, WRITABLE);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#refuseOthers();
  }

  /** Checks as `prepare` without creating the folder; returns whether it exists. Throws FolderUnusable. */
  examine(): boolean {
    try {
      for (let folder = this.path; ; folder = dirname(folder)) {
        const found = fs.statSync(folder, { throwIfNoEntry: false });
        if (found === undefined && folder !== dirname(folder)) continue;
        if (found?.isDirectory() !== true) throw Object.assign(new Error(), { code: 'ENOTDIR' });
        fs.accessSync(folder, WRITABLE);
        if (folder !== this.path) return false;
        break;
      }
    } catch (error) {
      throw this.#failed(error);
    }
    this.#refuseOthers();
    return true;
  }

  #refuseOthers(): void {
    this.#refuseShared(this.path, fs.statSync(this.path), 'the data folder', 'chmod 700');
    for (const name of CONTROL_FILES) {
      const file = this.file(name);
      const found = fs.lstatSync(file, { throwIfNoEntry: false });
      if (found !== undefined) this.#refuseShared(file, found, 'the file', 'chmod 600');
    }
    if (this.#serving !== null) this.writeOnce('serves.json', { place: this.#serving.place });
  }

  /** Writes a file that stays as it is from then on. Throws FolderUnusable. */
  writeOnce(name: string, value: object): void {
    const path = this.file(name);
    try {
      // The disk was full when it was to be written.
      if (fs.statSync(path, { throwIfNoEntry: false })?.size === 0) fs.rmSync(path, { force: true });
      fs.writeFileSync(path, JSON.stringify(value), { mode: 0o600, flag: 'wx' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw this.#failed(error);
    }
  }

  /** Refuses a file that another user can write: that user could have planted a token or a server. */
  #refuseShared(path: string, { mode, uid }: fs.Stats, what: string, chmod: string): void {
    const own = process.getuid?.();
    if (own === undefined) return;
    const refuse = (why: string, remedy: string): never => {
      throw new FolderUnusable(`${what} ${path} ${why}`, remedy, { untrusted: true });
    };
    if ((mode & fs.constants.S_IFMT) === fs.constants.S_IFLNK)
      refuse('is a symbolic link', 'remove it, or put a file in its place');
    if (uid !== own && uid !== 0) {
      refuse(
        `belongs to another user (${uid}), who could write to it`,
        `start as that user, or run: chown ${own} ${path}`,
      );
    }
    if ((mode & WRITE_BY_OTHERS) === 0) return;
    refuse('can be written by other users', `look what is in it, then run: ${chmod} ${path}`);
  }

  #failed(error: unknown, code = (error as NodeJS.ErrnoException).code ?? ''): FolderUnusable {
    const why = REASONS[code] ?? (error as Error).message;
    const remedy = code === 'ENOSPC' || code === 'EDQUOT' ? `free some space, or ${ANOTHER}` : ANOTHER;
    return new FolderUnusable(`the data folder ${this.path} cannot be used: ${why}`, remedy, { cause: error });
  }

  /** Locks the folder; false if another process holds the lock. Throws FolderUnusable. */
  acquire(): boolean {
    if (this.#lock !== null) return true;
    this.prepare();
    const lock = this.#tryLock();
    if (lock === null) return false;
    this.#lock = lock;
    fs.rmSync(this.file('instance.json'), { force: true });
    return true;
  }

  /** Returns null if another process holds the lock. Throws FolderUnusable if the lock file is unusable. */
  #tryLock(repairs = true): DatabaseSync | null {
    const file = this.file('lock.db');
    let lock: DatabaseSync | null = null;
    try {
      // To close any descriptor of the file would end the lock of another gateway in this process.
      if (!fs.existsSync(file)) fs.closeSync(fs.openSync(file, 'a', 0o600));
      fs.chmodSync(file, 0o600);
      lock = new DatabaseSync(file);
      lock.exec(`PRAGMA busy_timeout = ${LOCK_WAIT_MS}; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE`);
      return lock;
    } catch (error) {
      lock?.close();
      if (isBusy(error)) return null;
      if (!repairs || !isDamaged(error)) throw this.#unusable(error);
    }
    // Truncated in place: it holds no data, and two processes that do so still contend for the same file.
    try {
      fs.truncateSync(file);
      fs.rmSync(`${file}-journal`, { force: true });
    } catch (error) {
      throw this.#unusable(error);
    }
    return this.#tryLock(false);
  }

  #unusable(cause: unknown): FolderUnusable {
    const code = sqliteCode(cause) === FULL ? 'ENOSPC' : ((cause as NodeJS.ErrnoException).code ?? '');
    if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'EROFS') return this.#failed(cause, code);
    const reason = messageOf(cause);
    const text = `the lock ${this.file('lock.db')} cannot be used: ${reason}`;
    return new FolderUnusable(text, 'make it writable or remove it, it holds nothing', { cause });
  }

  /** The running gateway of this folder; null without one or before it has published itself. The lock decides, not the file. */
  instance(): Instance | null {
    try {
      if (!this.#isLocked()) return null;
      return JSON.parse(fs.readFileSync(this.file('instance.json'), 'utf8')) as Instance;
    } catch {
      return null;
    }
  }

  publish(instance: Instance): void {
    fs.writeFileSync(this.file('instance.json'), `${JSON.stringify(instance, null, 2)}\n`, { mode: 0o600 });
  }

  /**
   * The token of the control API, or the token that grants the right to run programs. Readable by the user only; stays the
   * same across restarts unless its file is removed.
   */
  token(name: 'control.token' | 'exec.token', create: () => string): string {
    const path = this.file(name);
    try {
      const token = fs.readFileSync(path, 'utf8').trim();
      if (token.length >= 32) {
        fs.chmodSync(path, 0o600);
        return token;
      }
    } catch {}
    const token = create();
    try {
      fs.writeFileSync(path, `${token}\n`, { mode: 0o600 });
      // `mode` applies only to a new file.
      fs.chmodSync(path, 0o600);
    } catch (error) {
      throw this.#failed(error);
    }
    return token;
  }

  /** Whether a process holds the lock. Throws if there is no folder or lock file yet. */
  #isLocked(): boolean {
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
    fs.rmSync(this.file('instance.json'), { force: true });
    this.#lock.close();
    this.#lock = null;
  }
}

/** SQLITE_FULL */
const FULL = 13;

function isBusy(error: unknown): boolean {
  return sqliteCode(error) === 5 || sqliteCode(error) === 6;
}

/** SQLITE_CORRUPT, SQLITE_NOTADB */
function isDamaged(error: unknown): boolean {
  return sqliteCode(error) === 11 || sqliteCode(error) === 26;
}
