import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { type NodeOptions, NodeProcess, until } from '../support/cluster-processes.ts';
import type { TcpGate } from '../support/tcp-gate.ts';
import { type Span, standstills } from './standstills.ts';

const RETRIES_MS = 30_000;
const RETRY_MS = 250;
/** A node that has not exited by then (30 s for its calls, and a margin) hangs. */
const LEAVES_MS = 45_000;

/** Characters of its log in the error of a wait that failed. */
const LAST_WORDS = 20_000;

/** A time in which a node is not expected to answer: killed, stopped, or not started. */
export interface Absence {
  readonly node: string;
  readonly from: number;
  to: number;
}

export interface ClusterNodeDeps {
  readonly name: string;
  /** Between the node and NATS. */
  readonly gate: TcpGate;
  readonly servers: object;
  readonly settings: object;
  readonly options: Omit<NodeOptions, 'nats' | 'folder'>;
}

/** One node of a chaos cluster: a gateway that is killed, stopped and cut off, and starts again in its folder. */
export class ClusterNode {
  readonly name: string;
  readonly gate: TcpGate;
  readonly absences: Absence[] = [];
  readonly #deps: ClusterNodeDeps;
  #process: NodeProcess | null = null;
  #folder: string | null = null;
  #log = '';
  /** Lines about standstills in its whole log, not only in the end that `#log` keeps. */
  readonly #stood: string[] = [];

  constructor(deps: ClusterNodeDeps) {
    this.#deps = deps;
    this.name = deps.name;
    this.gate = deps.gate;
  }

  /** Null while it is not running. A stopped process counts as running. */
  get process(): NodeProcess | null {
    return this.#process;
  }

  /** What its last processes logged. */
  get log(): string {
    return `${this.#log}${this.#process?.stderr ?? ''}`;
  }

  /** When the machine did not run it; `origin` is the origin of the history's clock, in wall-clock time. */
  standstills(origin: number): Span[] {
    return standstills(this.#stood.join('\n'), origin);
  }

  /** Whether it was away at some time in between. */
  awayDuring(from: number, to: number): boolean {
    return this.absences.some((absence) => absence.from <= to && absence.to >= from);
  }

  /**
   * Starts it, for the first time or again, and waits until it is ready. A process that exits instead is started again for
   * a while, as a supervisor would do: without its store it does not start.
   */
  async start(): Promise<void> {
    const end = performance.now() + RETRIES_MS;
    for (;;) {
      try {
        await this.#start();
        break;
      } catch (error) {
        if (this.#folder === null || performance.now() > end) throw error;
        await sleep(RETRY_MS);
      }
    }
    await this.ready();
  }

  async #start(): Promise<void> {
    const { name, servers, settings, options, gate } = this.#deps;
    const folder = this.#folder === null ? {} : { folder: this.#folder };
    const nats = `nats://127.0.0.1:${gate.port}`;
    const started = await NodeProcess.start(name, servers, settings, { ...options, ...folder, nats });
    this.#folder = started.gateway.folder;
    this.#process = started;
    createInterface({ input: started.gateway.process.stderr! }).on('line', (line) => {
      if (line.includes('_stood_still"')) this.#stood.push(line);
    });
    void started.exited.then(() => this.#ended(started));
  }

  async ready(): Promise<void> {
    await until(async () => (await this.#process?.serves()) === true, `node ${this.name} to be ready`).catch(
      (error: Error) => {
        throw new Error(`${error.message}:\n${this.log.slice(-LAST_WORDS)}`);
      },
    );
    this.#back();
  }

  /** Ends it as a power failure would. */
  async kill(): Promise<void> {
    const process = this.#process;
    if (process === null) return;
    this.away();
    process.kill('SIGKILL');
    await process.exited;
  }

  /** Makes it leave, as an operator would; resolves with its exit code. */
  async leave(): Promise<number | null> {
    const process = this.#process;
    if (process === null) return null;
    const late = setTimeout(() => process.kill('SIGKILL'), LEAVES_MS);
    process.kill('SIGTERM');
    const code = await process.exited;
    clearTimeout(late);
    return code;
  }

  stop(): void {
    this.away();
    this.#process?.kill('SIGSTOP');
  }

  /** Resumes it. It counts as away until it is ready: its work was lost, and it has to detect that. */
  async goOn(): Promise<void> {
    this.#process?.kill('SIGCONT');
    await this.ready();
  }

  /** From now on it is not expected to answer. */
  away(): void {
    const last = this.absences.at(-1);
    if (last?.to !== Number.POSITIVE_INFINITY) {
      this.absences.push({ node: this.name, from: performance.now(), to: Number.POSITIVE_INFINITY });
    }
  }

  async dispose(): Promise<void> {
    this.#process?.kill('SIGCONT');
    await this.leave();
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
    await this.gate[Symbol.asyncDispose]();
  }

  #ended(process: NodeProcess): void {
    if (this.#process !== process) return;
    this.away();
    this.#process = null;
    this.#log = `${this.#log}${process.stderr}`.slice(-400_000);
  }

  #back(): void {
    const last = this.absences.at(-1);
    if (last?.to === Number.POSITIVE_INFINITY) last.to = performance.now();
  }
}
