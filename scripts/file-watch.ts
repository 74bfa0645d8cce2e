import { existsSync, readdirSync, readFileSync, readlinkSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { childrenOf, commandOf, killAll, livingAmong, type ProcessId } from '../test/support/processes.ts';

/** The note that a test file writes to a folder when it begins. */
export interface FileNote {
  readonly file: string;
  readonly id: ProcessId;
  /** When it began. */
  readonly at: number;
  /** Its outputs to the test runner, as /proc names them. The runner waits for every process that holds one. */
  readonly outputs: readonly string[];
}

export interface FileWatchOptions {
  readonly notes: string;
  readonly say: (text: string) => void;
  readonly fileMs?: number;
  readonly leftMs?: number;
}

/** The limit of a whole file; the runner limits single tests, but neither hooks nor a blocked event loop. */
const FILE_MS = 900_000;
/** For processes that outlive the file that began them. */
const LEFT_MS = 15_000;
const LOOK_MS = 2_000;

/**
 * Checks from outside that test files end: it kills a file that runs for far too long, even with a blocked event loop,
 * with all its children, and processes that a file leaves behind and that hold its output. It reports each, and the
 * whole run fails. Without /proc it does nothing.
 */
export class FileWatch {
  readonly #options: FileWatchOptions;
  readonly #endedAt = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  /** Whether it killed any process. */
  failed = false;

  constructor(options: FileWatchOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.look(), LOOK_MS);
    this.#timer.unref();
  }

  look(now = Date.now()): void {
    const { notes, fileMs = FILE_MS, leftMs = LEFT_MS } = this.#options;
    if (!existsSync('/proc/self') || !existsSync(notes)) return;
    for (const name of readdirSync(notes).filter((entry) => entry.endsWith('.json'))) {
      const note = noteIn(join(notes, name));
      if (note === null) continue;
      if (livingAmong([note.id]).length > 0) {
        const all = [note.id, ...childrenOf(note.id[0])].map(([pid]) => pid);
        if (now - note.at > fileMs) this.#end(note, `it is not done after ${fileMs / 60_000} minutes`, all);
        continue;
      }
      const holders = holdersOf(note.outputs);
      const endedAt = this.#endedAt.get(name) ?? now;
      this.#endedAt.set(name, endedAt);
      if (holders.length === 0) renameSync(join(notes, name), join(notes, `${name}.done`));
      else if (now - endedAt >= leftMs) this.#end(note, 'it has ended, and left what holds its output', holders);
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #end({ file }: FileNote, why: string, pids: readonly number[]): void {
    this.failed = true;
    const lines = pids.map((pid) => `  process ${pid}: ${commandOf(pid).slice(-300)}`);
    this.#options.say([`LEFT OPEN  ${file}: ${why}`, ...lines].join('\n'));
    killAll(pids);
  }
}

/** Null while it is being written. */
function noteIn(path: string): FileNote | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as FileNote;
  } catch {
    return null;
  }
}

/** Processes that have any of these open, except what this process has open itself, with all their children. */
function holdersOf(outputs: readonly string[]): number[] {
  const ours = new Set(opened(process.pid));
  const wanted = new Set(outputs.filter((link) => /^(?:pipe|socket):/.test(link) && !ours.has(link)));
  const holders = readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => opened(pid).some((link) => wanted.has(link)));
  return [...new Set(holders.flatMap((pid) => [pid, ...childrenOf(pid).map(([child]) => child)]))];
}

/** The open files of a process, as far as they are readable. */
function opened(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).flatMap((fd) => {
      try {
        return [readlinkSync(join(folder, fd))];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}
