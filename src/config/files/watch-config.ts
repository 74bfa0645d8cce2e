import { createHash } from 'node:crypto';
import { constants, existsSync, type FSWatcher, lstatSync, realpathSync, watch } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { isReadFailure, MAX_FILE_BYTES, readBytes } from '../document/read-source.ts';

export interface WatchOptions {
  /** Quiet time after an event before reading the files, since editors write in several steps. Default 200. */
  readonly debounceMs?: number;
  /** Checks the files before they are read. Default: one of its own. */
  readonly probe?: FileSystemProbe;
}

/** Maximum delay of a reading by a stream of events, in multiples of the quiet time. */
const MAX_PUT_OFFS = 3;

/**
 * Watches the folders of files instead of the files: a file may be replaced by renaming (editors), deleted and created again,
 * or be a symbolic link with a changing target (a mounted ConfigMap). An event is only a hint; the hash of the content decides,
 * so saving a file unchanged is no change. The gateway finds changes without an event by reading the files again every 30 s.
 * Does not keep the process alive.
 */
export class ConfigWatch {
  readonly #onChange: (changed: readonly string[]) => void;
  readonly #debounceMs: number;
  readonly #probe: FileSystemProbe;
  #hashes: Map<string, string>;
  #watchers: readonly FSWatcher[] = [];
  #timer: NodeJS.Timeout | null = null;
  #firstHint = 0;
  #closed = false;

  /** `onChange` gets the files whose content has changed. */
  constructor(files: readonly string[], onChange: (changed: readonly string[]) => void, options: WatchOptions = {}) {
    this.#onChange = onChange;
    this.#debounceMs = options.debounceMs ?? 200;
    this.#probe = options.probe ?? new FileSystemProbe();
    this.#hashes = hashesOf(files);
    this.#arm();
  }

  /** Watches these files from now on. New files count as unchanged. */
  follow(files: readonly string[]): void {
    if (this.#closed) return;
    const known = this.#hashes;
    this.#hashes = new Map(files.map((file) => [file, known.get(file) ?? hashOf(file)]));
    this.#arm();
    // Closing the watchers loses their pending events.
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
    this.#timer = setTimeout(() => void this.#look(), this.#debounceMs).unref();
  }

  async #look(): Promise<void> {
    this.#timer = null;
    await this.#probe.waitUntilResponsive([...this.#hashes.keys()]);
    if (this.#closed) return;
    this.#arm();
    const before = this.#hashes;
    this.#hashes = hashesOf([...before.keys()]);
    const changed = [...this.#hashes].filter(([file, hash]) => before.get(file) !== hash).map(([file]) => file);
    if (changed.length > 0) this.#onChange(changed);
  }

  /** Opens watchers for the folders of the files. A folder may have been replaced, so it closes the old watchers. */
  #arm(): void {
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [...foldersOf([...this.#hashes.keys()])].flatMap(([path, names]) => this.#open(path, names) ?? []);
  }

  /** `names`: the relevant names in the folder; null for all names. */
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
      // A missing folder would appear in its nearest existing parent.
      if (folder !== dirname(folder)) want(dirname(folder), null);
      return;
    }
    const names = wanted.get(folder);
    wanted.set(folder, name === null || names === null ? null : (names ?? new Set()).add(name));
  };
  for (const file of files) {
    try {
      // The path of the folder may contain links as well, so the comparison uses the real path.
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
 * The main thread reads files synchronously, and an unresponsive file system (a dead network mount) would block it for good.
 * Before a reading, this class checks on a pool thread that the files respond. A check without an answer occupies one of those
 * threads; no second one starts meanwhile.
 */
export class FileSystemProbe {
  readonly #look: (file: string) => Promise<void>;
  #looking: Promise<void> | null = null;

  constructor(look: (file: string) => Promise<void> = firstByte) {
    this.#look = look;
  }

  /** Resolves when the file system has responded for each file, including with an error. Never rejects. */
  waitUntilResponsive(files: readonly string[]): Promise<void> {
    this.#looking ??= this.#all(files).finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #all(files: readonly string[]): Promise<void> {
    for (const file of files) await this.#look(file).catch(() => {});
  }
}

export async function firstByte(file: string): Promise<void> {
  const opened = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    await opened.read(Buffer.allocUnsafe(1), 0, 1, 0);
  } finally {
    await opened.close();
  }
}
