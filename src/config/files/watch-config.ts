import { createHash } from 'node:crypto';
import { constants, type FSWatcher, lstatSync, realpathSync, statSync, watch } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { isReadFailure, MAX_FILE_BYTES, readBytes } from '../document/read-source.ts';

export interface WatchOptions {
  /** Quiet time after an event before the files are looked at: editors write in several steps. Default 200. */
  readonly debounceMs?: number;
  /** How often the files are looked at where the system cannot tell of changes. Default 500. */
  readonly pollMs?: number;
}

interface WatchedFolder {
  readonly watcher: FSWatcher;
  /** Names in the folder that matter; null for all of them. */
  readonly names: ReadonlySet<string> | null;
}

/** Longest time that a stream of events can put off the look at the files, in quiet times. */
const MAX_PUT_OFFS = 3;

/**
 * Watches the folders of files, not the files: a file may be replaced by renaming (editors), deleted and made
 * again, or be a symbolic link whose target is swapped (a mounted ConfigMap). An event is a hint only; what counts
 * is the hash of the content, so saving a file unchanged is no change. Does not keep the process alive.
 */
export class ConfigWatch {
  readonly #onChange: (changed: readonly string[]) => void;
  readonly #debounceMs: number;
  readonly #pollMs: number;
  #hashes: Map<string, string>;
  /** By path, device and inode: a folder that was deleted and made again is another one. */
  #folders = new Map<string, WatchedFolder>();
  #timer: NodeJS.Timeout | null = null;
  #poll: NodeJS.Timeout | null = null;
  #firstHint = 0;
  #closed = false;

  /** `onChange` gets the files whose content is another than it was. */
  constructor(files: readonly string[], onChange: (changed: readonly string[]) => void, options: WatchOptions = {}) {
    this.#onChange = onChange;
    this.#debounceMs = options.debounceMs ?? 200;
    this.#pollMs = options.pollMs ?? 500;
    this.#hashes = hashesOf(files);
    this.#arm();
  }

  /** Watches these files from now on. Files that are new count as unchanged. */
  follow(files: readonly string[]): void {
    if (this.#closed) return;
    const known = this.#hashes;
    this.#hashes = new Map(files.map((file) => [file, known.get(file) ?? hashOf(file)]));
    this.#arm();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#poll !== null) clearInterval(this.#poll);
    for (const { watcher } of this.#folders.values()) watcher.close();
    this.#folders.clear();
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

  /** Makes the watched folders those that the files need now; polls where one of them cannot be watched. */
  #arm(): void {
    const wanted = foldersOf([...this.#hashes.keys()]);
    const folders = new Map<string, WatchedFolder>();
    let complete = true;
    for (const [id, { path, names }] of wanted) {
      const watcher = this.#folders.get(id)?.watcher ?? this.#open(id, path);
      if (watcher === null) complete = false;
      else folders.set(id, { watcher, names });
    }
    for (const [id, { watcher }] of this.#folders) if (!folders.has(id)) watcher.close();
    this.#folders = folders;
    if (complete && this.#poll !== null) {
      clearInterval(this.#poll);
      this.#poll = null;
    } else if (!complete) this.#poll ??= setInterval(() => this.#look(), this.#pollMs).unref();
  }

  #open(id: string, path: string): FSWatcher | null {
    try {
      const watcher = watch(path, { persistent: false }, (_event, name) => {
        const names = this.#folders.get(id)?.names;
        if (name === null || !names || names.has(name)) this.#hint();
      });
      watcher.on('error', () => {
        watcher.close();
        if (this.#folders.delete(id)) this.#hint();
      });
      return watcher;
    } catch {
      return null;
    }
  }
}

interface WantedFolder {
  readonly path: string;
  readonly names: Set<string> | null;
}

function foldersOf(files: readonly string[]): Map<string, WantedFolder> {
  const wanted = new Map<string, WantedFolder>();
  const want = (folder: string, name: string | null): void => {
    let path = folder;
    let stat = statSync(path, { throwIfNoEntry: false });
    while (stat === undefined && path !== dirname(path)) {
      // What does not exist appears in the nearest folder above that does.
      name = null;
      path = dirname(path);
      stat = statSync(path, { throwIfNoEntry: false });
    }
    if (stat === undefined) return;
    const id = `${path}\u0000${stat.dev}\u0000${stat.ino}`;
    const names = wanted.get(id)?.names;
    if (name === null || names === null) wanted.set(id, { path, names: null });
    else wanted.set(id, { path, names: (names ?? new Set()).add(name) });
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
