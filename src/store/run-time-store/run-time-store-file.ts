import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { messageOf } from '../../model/thrown.ts';
import { setAside } from '../set-aside.ts';
import { sqliteCode } from '../sqlite-code.ts';
import { checkIntegrity, checkIntegrityInSlices, migrate, UnknownVersion } from './integrity-check.ts';
import { StoreError, type StoreFault } from './run-time-store.ts';

const BUSY_MS = 5_000;

/** The store file cannot be used. Nothing was changed, and the gateway does not start with it (F35). */
export class StoreUnusable extends Error {
  readonly file: string;
  readonly remedy: string;

  constructor(file: string, detail: string, remedy: string) {
    super(`${file} cannot be used: ${detail}`);
    this.file = file;
    this.remedy = remedy;
  }
}

export interface OpenedFile {
  readonly db: DatabaseSync;
  /** Identifies the open file, even if another file gets its name. */
  readonly inode: number;
}

export function snapshotPath(path: string): string {
  return `${path}.snapshot`;
}

/** Opens, checks and migrates the file; null if it was never written. Throws StoreUnusable. */
export function openStoreFile(path: string): OpenedFile | null {
  const snapshot = fs.existsSync(snapshotPath(path));
  // The first change to an empty file was never committed. After a commit there is a snapshot, or the file is damaged.
  const there = fs.existsSync(path) && (fs.statSync(path).size > 0 || fs.existsSync(`${path}-journal`));
  if (!there) {
    if (!snapshot) return null;
    throw unusable(path, fs.existsSync(path) ? 'it is empty' : 'it is gone, and its snapshot is there');
  }
  try {
    return openFile(path);
  } catch (error) {
    if (error instanceof StoreUnusable) throw error;
    const detail = messageOf(error);
    if (error instanceof UnknownVersion) {
      throw new StoreUnusable(
        path,
        detail,
        'run the Trunkline that wrote it, or a newer one; if there is none, the file is damaged: `trunkline restore`',
      );
    }
    if (faultOf(error) === 'damaged') throw unusable(path, detail);
    throw new StoreUnusable(path, detail, 'see that its folder can be read and written, and start again');
  }
}

/** Whether the file has records of a collection, read while a gateway may have it open. */
export function hasRecords(path: string, collection: string): boolean {
  if (!fs.existsSync(path)) return false;
  try {
    const db = new DatabaseSync(path, { readOnly: true });
    try {
      return db.prepare('SELECT 1 FROM records WHERE collection = ? LIMIT 1').get(collection) !== undefined;
    } finally {
      db.close();
    }
  } catch {
    // Opening a damaged file for use reports what is wrong.
    return true;
  }
}

/** Creates the file. Throws the error of SQLite or the system. */
export function createStoreFile(path: string): OpenedFile {
  if (path !== ':memory:') fs.closeSync(fs.openSync(path, 'a', 0o600));
  return openFile(path);
}

function openFile(path: string): OpenedFile {
  if (path !== ':memory:') fs.chmodSync(path, 0o600);
  const db = new DatabaseSync(path);
  try {
    // With EXTRA the end of the journal is on disk too, so an acknowledged change survives a power failure.
    // The timeout is for another process of the data folder that writes, which takes milliseconds.
    db.exec(`PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;`);
    migrate(db);
    // Fails if a damaged header says that this version of SQLite may not write.
    db.exec('BEGIN IMMEDIATE; ROLLBACK');
    checkIntegrity(db);
    return { db, inode: path === ':memory:' ? 0 : fs.statSync(path).ino };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Copies the open database, checks the copy, and replaces the previous snapshot with it. */
export async function takeSnapshot(db: DatabaseSync, path: string): Promise<void> {
  const target = snapshotPath(path);
  // Named by process: another process may take a snapshot at the same time.
  const fresh = `${target}.${process.pid}.new`;
  removeUnfinished(target);
  fs.rmSync(fresh, { force: true });
  fs.closeSync(fs.openSync(fresh, 'wx', 0o600));
  try {
    await backup(db, fresh);
    const copy = new DatabaseSync(fresh);
    try {
      await checkIntegrityInSlices(copy);
    } finally {
      copy.close();
    }
    syncPath(fresh);
    fs.renameSync(fresh, target);
    syncPath(dirname(target));
  } catch (error) {
    fs.rmSync(fresh, { force: true });
    throw error;
  }
}

/** Removes the unfinished snapshots of processes that were killed. */
function removeUnfinished(target: string): void {
  const folder = dirname(target);
  const unfinished = /^(\d+)\.new(?:-journal)?$/;
  for (const name of fs.readdirSync(folder)) {
    if (!name.startsWith(`${basename(target)}.`)) continue;
    const [, pid] = unfinished.exec(name.slice(basename(target).length + 1)) ?? [];
    if (pid !== undefined && Number(pid) !== process.pid && !isRunning(Number(pid)))
      fs.rmSync(join(folder, name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process runs as another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

export interface Restored {
  readonly keptAs: string | null;
  /** When the snapshot was taken; null if none was requested. */
  readonly takenAt: Date | null;
  readonly records: number;
}

/**
 * Replaces the file with the last snapshot, or with `empty` removes it; renames the old file. The caller holds the lock of
 * the folder.
 */
export function restoreStore(path: string, how: 'snapshot' | 'empty', wall: number): Restored {
  const snapshot = snapshotPath(path);
  const restored = { takenAt: null as Date | null, records: 0 };
  const fresh = `${path}.restored`;
  if (how === 'snapshot') {
    if (!fs.existsSync(snapshot)) {
      throw new StoreUnusable(path, 'there is no snapshot of it', 'begin without it: `trunkline restore --empty`');
    }
    restored.takenAt = fs.statSync(snapshot).mtime;
    restored.records = copySnapshot(path, snapshot, fresh);
  }
  const keptAs = fs.existsSync(path) ? setAside(path, wall) : null;
  if (how === 'snapshot') fs.renameSync(fresh, path);
  else if (fs.existsSync(snapshot)) setAside(snapshot, wall);
  syncPath(dirname(path));
  return { keptAs, ...restored };
}

function copySnapshot(path: string, snapshot: string, fresh: string): number {
  fs.rmSync(fresh, { force: true });
  try {
    const from = new DatabaseSync(snapshot, { readOnly: true });
    try {
      const { count } = checkIntegrity(from);
      fs.closeSync(fs.openSync(fresh, 'wx', 0o600));
      from.prepare('VACUUM INTO ?').run(fresh);
      syncPath(fresh);
      return count;
    } finally {
      from.close();
    }
  } catch (error) {
    fs.rmSync(fresh, { force: true });
    const detail = `its snapshot is not good either: ${messageOf(error)}`;
    throw new StoreUnusable(path, detail, 'begin without it: `trunkline restore --empty`');
  }
}

function unusable(path: string, detail: string): StoreUnusable {
  const kept = fs.readdirSync(dirname(path)).includes(basename(snapshotPath(path)));
  const taken = kept ? ` of ${fs.statSync(snapshotPath(path)).mtime.toISOString()}` : '';
  const remedy = kept
    ? `the file is left as it is; \`trunkline restore\` puts the last good snapshot${taken} in its place, \`trunkline restore --empty\` begins without it; both keep the file aside`
    : 'the file is left as it is; there is no snapshot; `trunkline restore --empty` begins without it and keeps the file aside';
  return new StoreUnusable(path, detail, remedy);
}

export function faultOf(error: unknown): StoreFault {
  if (error instanceof StoreError) return error.fault;
  if (!(error instanceof Error)) return 'unavailable';
  if ('code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')) return 'full';
  switch (sqliteCode(error)) {
    // SQLITE_IOERR and SQLITE_FULL: limits of a user or a process show as the former.
    case 10:
    case 13:
      return 'full';
    case 1:
    case 11:
    case 24:
    case 26:
      return 'damaged';
    default:
      return 'unavailable';
  }
}

export function syncPath(path: string): void {
  const file = fs.openSync(path, 'r');
  try {
    fs.fsyncSync(file);
  } finally {
    fs.closeSync(file);
  }
}
