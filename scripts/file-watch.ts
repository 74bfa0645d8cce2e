import { existsSync, readdirSync, readFileSync, readlinkSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { childrenOf, commandOf, killAll, livingAmong, type ProcessId } from '../test/support/processes.ts';

/** What a test file leaves in a folder as it begins. */
export interface FileNote {
  readonly file: string;
  readonly id: ProcessId;
  /** When it began. */
  readonly at: number;
  /** What the test runner reads of it, as /proc names it. Who else holds that makes the runner wait for ever. */
  readonly outputs: readonly string[];
}

export interface FileWatchOptions {
  readonly notes: string;
  readonly say: (text: string) => void;
  readonly fileMs?: number;
  readonly leftMs?: number;
}

/** A whole file; single tests are bounded by the runner, their hooks and a blocked event loop are not. */
const FILE_MS = 900_000;
/** For processes that outlive the file that began them. */
const LEFT_MS = 15_000;
const LOOK_MS = 2_000;

/**
 * Sees from outside that test files end: one that goes on for far too long, whatever its event loop does, is ended with
 * all that it began; processes that a file leaves behind and that hold its output are ended, too. Each is told of, and
 * makes the whole run fail. Without /proc it sees nothing.
 */
export class FileWatch {
  readonly #options: FileWatchOptions;
  readonly #endedAt = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  /** Whether any was ended. */
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

/** Processes that have any of these open, which we do not have ourselves, and all that they began. */
function holdersOf(outputs: readonly string[]): number[] {
  const ours = new Set(opened(process.pid));
  const wanted = new Set(outputs.filter((link) => /^(?:pipe|socket):/.test(link) && !ours.has(link)));
  const holders = readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => opened(pid).some((link) => wanted.has(link)));
  return [...new Set(holders.flatMap((pid) => [pid, ...childrenOf(pid).map(([child]) => child)]))];
}

/** As far as it can be seen. */
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
