import { createHash } from 'node:crypto';
import { constants, existsSync, type FSWatcher, lstatSync, realpathSync, watch } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { isReadFailure, MAX_FILE_BYTES, readBytes } from '../document/read-source.ts';

export interface WatchOptions {
  /** Quiet time after an event before the files are looked at: editors write in several steps. Default 200. */
  readonly debounceMs?: number;
}

/** Longest time that a stream of events can put off the look at the files, in quiet times. */
const MAX_PUT_OFFS = 3;

/**
 * Watches the folders of files, not the files: a file may be replaced by renaming (editors), deleted and made
 * again, or be a symbolic link whose target is swapped (a mounted ConfigMap). An event is a hint only; what counts
 * is the hash of the content, so saving a file unchanged is no change. What the system does not tell of is found when
 * the files are read again, every 30 s. Does not keep the process alive.
 */
export class ConfigWatch {
  readonly #onChange: (changed: readonly string[]) => void;
  readonly #debounceMs: number;
  #hashes: Map<string, string>;
  #watchers: readonly FSWatcher[] = [];
  #timer: NodeJS.Timeout | null = null;
  #firstHint = 0;
  #closed = false;

  /** `onChange` gets the files whose content is another than it was. */
  constructor(files: readonly string[], onChange: (changed: readonly string[]) => void, options: WatchOptions = {}) {
    this.#onChange = onChange;
    this.#debounceMs = options.debounceMs ?? 200;
    this.#hashes = hashesOf(files);
    this.#arm();
  }

  /** Watches these files from now on. Files that are new count as unchanged. */
  follow(files: readonly string[]): void {
    if (this.#closed) return;
    const known = this.#hashes;
    this.#hashes = new Map(files.map((file) => [file, known.get(file) ?? hashOf(file)]));
    this.#arm();
    // Events that waited for the watchers before are lost.
    this.#hint();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    for (const watcher of this.#watchers) watcher.close();
  }

  #hint(): void {
    if (this.#closed) return;
    const now = performance.now();
    if (this.#timer === null) this.#firstHint = now;
    else if (now - this.#firstHint > MAX_PUT_OFFS * this.#debounceMs) return;
    else clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), this.#debounceMs).unref();
  }

  #look(): void {
    this.#timer = null;
    this.#arm();
    const before = this.#hashes;
    this.#hashes = hashesOf([...before.keys()]);
    const changed = [...this.#hashes].filter(([file, hash]) => before.get(file) !== hash).map(([file]) => file);
    if (changed.length > 0) this.#onChange(changed);
  }

  /** Opens watchers for the folders that the files need now: one of the same name may be another folder by now. */
  #arm(): void {
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [...foldersOf([...this.#hashes.keys()])].flatMap(([path, names]) => this.#open(path, names) ?? []);
  }

  /** `names`: those in the folder that matter; null for all of them. */
  #open(path: string, names: ReadonlySet<string> | null): FSWatcher | null {
    try {
      const watcher = watch(path, { persistent: false }, (_event, name) => {
        if (name === null || names === null || names.has(name)) this.#hint();
      });
      return watcher.on('error', () => this.#hint());
    } catch {
      return null;
    }
  }
}

function foldersOf(files: readonly string[]): Map<string, Set<string> | null> {
  const wanted = new Map<string, Set<string> | null>();
  const want = (folder: string, name: string | null): void => {
    if (!existsSync(folder)) {
      // What does not exist appears in the nearest folder above that does.
      if (folder !== dirname(folder)) want(dirname(folder), null);
      return;
    }
    const names = wanted.get(folder);
    wanted.set(folder, name === null || names === null ? null : (names ?? new Set()).add(name));
  };
  for (const file of files) {
    try {
      // The folder's own path may hold links too, so the real path is compared, not only the file asked about.
      const real = realpathSync(file);
      const isLink = real !== file || lstatSync(file).isSymbolicLink();
      want(dirname(file), isLink ? null : basename(file));
      if (isLink) want(dirname(real), basename(real));
    } catch {
      want(dirname(file), null);
    }
  }
  return wanted;
}

function hashesOf(files: readonly string[]): Map<string, string> {
  return new Map(files.map((file) => [file, hashOf(file)]));
}

function hashOf(file: string): string {
  const bytes = readBytes(file, MAX_FILE_BYTES);
  return isReadFailure(bytes) ? bytes.code : createHash('sha256').update(bytes).digest('base64');
}

/**
 * Files are read on the thread of everything else, which a file system that is gone (a dead network mount) would stop for
 * good. Whether they answer is found out on another thread before, as often as they are read without any sign that they
 * are there. A look that gets no answer keeps one of those threads; none is sent after it.
 */
export class FilesAnswer {
  readonly #look: (file: string) => Promise<void>;
  #looking: Promise<void> | null = null;

  constructor(look: (file: string) => Promise<void> = firstByte) {
    this.#look = look;
  }

  /** Resolves when every file has said something, be it that it is not there. Never rejects. */
  answered(files: readonly string[]): Promise<void> {
    this.#looking ??= this.#all(files).finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #all(files: readonly string[]): Promise<void> {
    for (const file of files) await this.#look(file).catch(() => {});
  }
}

async function firstByte(file: string): Promise<void> {
  const opened = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    await opened.read(Buffer.allocUnsafe(1), 0, 1, 0);
  } finally {
    await opened.close();
  }
}
