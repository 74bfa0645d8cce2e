import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ProcessGuard, Startable } from '../../model/process-guard.ts';
import type { ProcessLog } from './log-limit.ts';
import type { ProcessRecord } from './process-group.ts';

interface ReaperOptions {
  readonly logger: ProcessLog;
  /** Also records groups here: the next instance sweeps them if both the gateway and the reaper were killed. */
  readonly record?: ProcessRecord | null;
  /** How long the reaper may take to start before the log reports it as missing. */
  readonly readyMs?: number;
  /** Pause before a reaper that died again is restarted; doubles up to 30 s. The first restart is immediate. */
  readonly restartMs?: number;
}

/** The variable by which the reaper finds a process that was started but not registered. */
const SPAWN_MARK = 'TRUNKLINE_SPAWN';
const READY_MS = 5000;
const RESTART_MS = 1000;
const RESTART_MAX_MS = 30_000;
const CLOSE_MS = 3000;
/** A reaper that ran this long did not fail because of its start. */
const STABLE_MS = 10_000;

/** The program next to this file: `.ts` in a checkout, `.js` in the package. */
const PROGRAM = fileURLToPath(new URL(`./reaper-program${extname(import.meta.url)}`, import.meta.url));

/**
 * The gateway's side of the reaper process (`reaper-program.ts`), which starts with the first guarded process. Nothing waits
 * for it: data in its pipe reaches it even if the gateway dies before the reaper has started. If it dies, it is restarted and
 * sent all groups again. It does not keep the gateway's process alive.
 */
export class Reaper implements ProcessGuard {
  readonly #options: ReaperOptions;
  readonly #groups = new Set<number>();
  #child: ChildProcess | null = null;
  #ready: Promise<void> | null = null;
  #failures = 0;
  #startedAt = 0;
  #restart: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ReaperOptions) {
    this.#options = options;
  }

  /** Process id of the reaper; null if none is running. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** Starts the reaper if none is running; resolves when it reads, or cannot be started. */
  ready(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (this.#ready !== null) return this.#ready;
    clearTimeout(this.#restart);
    const started = this.#start();
    // A start that failed at once has already scheduled the next one.
    if (this.#child !== null) this.#ready = started;
    return started;
  }

  start<T extends Startable>(spawn: (mark: Readonly<Record<string, string>>) => T): T {
    void this.ready();
    const mark = randomUUID();
    this.#send(`?${mark}\n`);
    let child: T | null = null;
    try {
      child = spawn({ [SPAWN_MARK]: mark });
      return child;
    } finally {
      if (child?.pid === undefined) this.#send('?\n');
      else this.#register(child.pid);
    }
  }

  unregister(group: number): void {
    if (!this.#groups.delete(group)) return;
    this.#send(`-${group}\n`);
    this.#options.record?.remove(group);
  }

  /** Ends the reaper, which stops groups that are still registered. Resolves when it has exited. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#restart);
    const child = this.#child;
    if (child !== null) {
      await new Promise<void>((resolve) => {
        const late = setTimeout(() => child.kill('SIGKILL'), CLOSE_MS);
        child.ref();
        child.once('exit', () => {
          clearTimeout(late);
          resolve();
        });
        child.stdin?.end();
      });
    }
    this.#options.record?.close();
  }

  #register(group: number): void {
    this.#groups.add(group);
    this.#send(`+${group}\n`);
    this.#options.record?.add(group);
  }

  #send(line: string): void {
    if (this.#child?.stdin?.writable) this.#child.stdin.write(line);
  }

  #start(): Promise<void> {
    this.#startedAt = performance.now();
    let child: ChildProcess;
    try {
      // Another working folder would pin its mount; an environment could change how Node starts.
      child = spawn(process.execPath, [PROGRAM], {
        detached: true,
        cwd: '/',
        env: {},
        stdio: ['pipe', 'pipe', 'ignore'],
      });
    } catch (error) {
      this.#unavailable(error instanceof Error ? error.message : String(error));
      this.#restartLater();
      return Promise.resolve();
    }
    this.#child = child;
    child.unref();
    // Without a pid there may be no streams; the reason arrives as an event.
    child.stdin?.on('error', () => {});
    child.stdout?.on('error', () => {});
    for (const group of this.#groups) child.stdin?.write(`+${group}\n`);
    (child.stdin as Socket | null)?.unref();
    const { readyMs = READY_MS } = this.#options;
    const ready = Promise.withResolvers<string | null>();
    const late = setTimeout(() => ready.resolve(`not ready after ${readyMs} ms`), readyMs);
    child.stdout?.once('data', () => ready.resolve(null));
    child.once('error', (error) => {
      this.#lost(child);
      ready.resolve(error.message);
    });
    child.once('exit', (code, signal) => {
      this.#lost(child);
      ready.resolve(`ended with ${signal ?? `exit code ${code}`}`);
    });
    return ready.promise.then((problem) => {
      clearTimeout(late);
      child.stdout?.destroy();
      if (problem !== null) this.#unavailable(problem);
    });
  }

  #unavailable(problem: string): void {
    this.#options.logger.warn('reaper_unavailable', { problem, hint: 'Servers may outlive a gateway that is killed.' });
  }

  #lost(child: ChildProcess): void {
    if (this.#child !== child) return;
    this.#child = null;
    child.stdin?.destroy();
    this.#restartLater();
  }

  #restartLater(): void {
    this.#ready = null;
    if (this.#closed) return;
    if (performance.now() - this.#startedAt > STABLE_MS) this.#failures = 0;
    const { restartMs = RESTART_MS } = this.#options;
    const pauseMs = this.#failures === 0 ? 0 : Math.min(RESTART_MAX_MS, restartMs * 2 ** (this.#failures - 1));
    this.#failures++;
    this.#options.logger.warn('reaper_lost', { restartInMs: pauseMs });
    this.#restart = setTimeout(() => void this.ready(), pauseMs);
    this.#restart.unref();
  }
}
