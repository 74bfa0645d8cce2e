import { dirname } from 'node:path';
import { type Clock, withTimeout } from '../../model/clock.ts';
import { NamedFiles, type ReadFailure } from '../document/read-source.ts';
import { firstByte } from './watch-config.ts';

/** Longer than it takes to mount a file system on demand. */
const ANSWER_MS = 4_000;
/** Folders without an answer; each occupies one of the four threads of the pool. */
const MAX_SILENT = 2;

/**
 * Checks on a pool thread that a file responds: reading one on an unresponsive file system (a dead network mount) would block the
 * main thread for good. A folder that gave no answer is not checked again until it does, and while two give none, no other is.
 */
export class FileChecks {
  readonly #clock: Clock;
  readonly #look: (file: string) => Promise<void>;
  readonly #silent = new Set<string>();

  constructor(clock: Clock, look: (file: string) => Promise<void> = firstByte) {
    this.#clock = clock;
    this.#look = look;
  }

  /** Whether the file system has responded, including with an error. */
  async responds(file: string): Promise<boolean> {
    const folder = dirname(file);
    if (this.#silent.has(folder) || this.#silent.size >= MAX_SILENT) return false;
    const answered = this.#look(file)
      .catch(() => {})
      .then(() => {
        this.#silent.delete(folder);
        return true;
      });
    return withTimeout(this.#clock, ANSWER_MS, answered, () => {
      this.#silent.add(folder);
      return false;
    });
  }
}

/** Reads the files that were checked and respond; any other counts as unreadable. */
export class CheckedFiles extends NamedFiles {
  readonly #responds: (file: string) => Promise<boolean>;
  readonly #answers = new Map<string, boolean>();

  constructor(responds: (file: string) => Promise<boolean>) {
    super();
    this.#responds = responds;
  }

  override read(file: string, maxBytes: number): Buffer | ReadFailure {
    if (this.#answers.get(file) === true) return super.read(file, maxBytes);
    this.add(file);
    return { code: 'TL1002', message: 'is not read, because its file system does not respond' };
  }

  /** Checks the files that were named since the last check. False if there are none: then the last reading is complete. */
  async check(): Promise<boolean> {
    const fresh = [...this].filter((file) => !this.#answers.has(file));
    for (const file of fresh) this.#answers.set(file, await this.#responds(file));
    return fresh.length > 0;
  }
}
