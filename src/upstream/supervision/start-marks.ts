import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Clock } from '../../model/clock.ts';

/** A start during which the process ended once may have had nothing to do with it; twice in a row is no coincidence. */
const CRASHES = 2;
/** A start that goes on for longer only waits, for a mute server: it ends no process, and no other start waits for it. */
const SUSPECT_MS = 10_000;

interface StartEntry {
  /** Of the definition: a changed one is another server. */
  readonly digest: string;
  /** How many starts in a row the process did not survive. */
  crashes: number;
  starting: boolean;
}

/** What the supervisor of one server knows and reports about its starts. */
export type StartMark = ReturnType<StartMarks['of']>;

/**
 * The starts in progress, in a file, so that the next process knows which start this one did not survive (out of
 * memory, native crash, SIGKILL). Not synced: what a process has written survives that process.
 */
export class StartMarks {
  readonly #file: string;
  readonly #clock: Clock;
  readonly #entries = new Map<string, StartEntry>();
  /** Behind the last server that may have been the cause of a crash. */
  #lock: Promise<void> = Promise.resolve();

  constructor(file: string, clock: Clock) {
    this.#file = file;
    this.#clock = clock;
    for (const [server, entry] of read(file)) {
      const crashes = entry.crashes + (entry.starting ? 1 : 0);
      this.#entries.set(server, { digest: entry.digest, crashes, starting: false });
    }
    if (this.#entries.size > 0) this.#write();
  }

  of(server: string, digest: string) {
    const entries = this.#entries;
    const mine = (): StartEntry | null => {
      const entry = entries.get(server);
      return entry?.digest === digest ? entry : null;
    };
    return {
      /** Why it must not be started; null where it may. */
      get held(): string | null {
        if ((mine()?.crashes ?? 0) < CRASHES) return null;
        return `its process ended twice in a row while it was starting this server, which is therefore not started; 'trunkline restart ${server}' tries again, and so does a changed definition`;
      },
      /**
       * Resolves when a start may take its place, with what to call when it has ended: after a crash the servers that may
       * be its cause start one after the other. It counts from when it has `begun`, for ten seconds.
       */
      begin: async (begun: Promise<void>): Promise<() => void> => {
        const { promise, resolve } = Promise.withResolvers<void>();
        if (mine() !== null) {
          const before = this.#lock;
          this.#lock = before.then(() => promise);
          await before;
        }
        let over = false;
        let entry: StartEntry | null = null;
        let disarm = (): void => {};
        const end = (): void => {
          over = true;
          disarm();
          resolve();
          if (entry === null || entries.get(server) !== entry) return;
          entries.delete(server);
          this.#write();
        };
        void begun.then(() => {
          if (over) return;
          disarm = this.#clock.after(SUSPECT_MS, end);
          entry = { digest, crashes: mine()?.crashes ?? 0, starting: true };
          entries.set(server, entry);
          this.#write();
        });
        return end;
      },
      /** An operator wants it started again. */
      release: (): void => {
        if (mine() !== null && entries.delete(server)) this.#write();
      },
    };
  }

  /** The process ends in good order: no start that is in progress counts. */
  close(): void {
    for (const [server, entry] of this.#entries) {
      entry.starting = false;
      if (entry.crashes === 0) this.#entries.delete(server);
    }
    this.#write();
  }

  #write(): void {
    try {
      if (this.#entries.size === 0) {
        rmSync(this.#file, { force: true });
        return;
      }
      writeFileSync(`${this.#file}.new`, JSON.stringify(Object.fromEntries(this.#entries)), { mode: 0o600 });
      renameSync(`${this.#file}.new`, this.#file);
    } catch {
      // A disk that takes nothing must not keep a server from starting.
    }
  }
}

/** Nothing where the file is not there or is not one of ours. */
function read(file: string): [string, StartEntry][] {
  try {
    return Object.entries(JSON.parse(readFileSync(file, 'utf8')) as Record<string, StartEntry>).filter(
      ([, entry]) =>
        typeof entry?.digest === 'string' && Number.isSafeInteger(entry.crashes) && typeof entry.starting === 'boolean',
    );
  } catch {
    return [];
  }
}
