import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Clock } from '../../model/clock.ts';

/** Consecutive crashes of the gateway during a server's start after which the server is not started. One may be a coincidence. */
const CRASHES = 2;
/** A start that takes longer only waits for a silent server: it is not suspected of a crash, and no other start waits for it. */
const SUSPECT_MS = 10_000;

interface StartEntry {
  /** Connection digest of the definition: a changed definition counts as another server. */
  readonly digest: string;
  /** Consecutive starts during which the process crashed. */
  crashes: number;
  starting: boolean;
}

/** One server's record of starts, for its supervisor. */
export type StartRecord = ReturnType<StartRecords['of']>;

/**
 * Records the starts in progress in a file, so that the next process knows during which start this one crashed (out of memory,
 * native crash, SIGKILL). Not synced to disk: data that a process has written survives that process.
 */
export class StartRecords {
  readonly #file: string;
  readonly #clock: Clock;
  readonly #entries = new Map<string, StartEntry>();
  /** Serialises the starts of servers that may have caused a crash. */
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
      /** Why the server must not be started; null if it may. */
      get blockedReason(): string | null {
        if ((mine()?.crashes ?? 0) < CRASHES) return null;
        return `its process ended twice in a row while it was starting this server, which is therefore not started; 'trunkline restart ${server}' tries again, and so does a changed definition`;
      },
      /**
       * Resolves when a start may proceed, with a function to call when it has ended: after a crash, the servers that may be
       * the cause start one after the other. The start is recorded for ten seconds from when it has `begun`.
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
      /** An operator requested another start. */
      release: (): void => {
        if (mine() !== null && entries.delete(server)) this.#write();
      },
    };
  }

  /** The process exits normally: starts in progress do not count. */
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
      // A full disk must not prevent a start.
    }
  }
}

/** Empty if the file does not exist or is invalid. */
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
