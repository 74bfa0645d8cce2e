import { type GatewayError, notOwned } from '../../model/gateway-error.ts';
import type { ProcessGuard } from '../../model/process-guard.ts';
import { sanitizedDefinition } from '../../model/sanitized-definition.ts';
import type { StdioSpec } from '../../model/server.ts';
import { startFailure } from '../process/command.ts';
import { groupAlive } from '../process/process-group.ts';
import { RestedReading, SlicedReading, type Take } from '../process/sliced-reading.ts';
import { type Child, type Launch, overSsh, spawnChild } from '../process/spawn-child.ts';
import { LADDER_TIMES, type LadderTimes, StopLadder } from '../process/stop-ladder.ts';
import { LineTransport, type LineTransportOptions } from './line-transport.ts';
import type { CloseReason } from './transport.ts';

export interface StdioTransportOptions extends LineTransportOptions {
  readonly spec: StdioSpec;
  readonly guard: ProcessGuard;
  /** The gateway's own environment, part of which is inherited. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly times?: Partial<StdioTimes>;
}

interface StdioTimes {
  readonly ladder: LadderTimes;
  /** After the process's exit: how long to wait for its last output if something else keeps the pipe open. */
  readonly drainMs: number;
  /** A process that closed its input and does not exit within this time ends the connection. */
  readonly brokenInputMs: number;
}

const STDIO_TIMES: StdioTimes = { ladder: LADDER_TIMES, drainMs: 50, brokenInputMs: 250 };

/**
 * A process that speaks newline-framed JSON-RPC on its standard streams: a local one, or ssh with a remote one.
 *
 * Guarantees: every request gets its answer or one `lost`, whatever the process does: within 100 ms of its exit, or at once if
 * it accepts no input. The process leads its own process group, which is registered with the reaper; when the transport has
 * ended, by `close` or by itself, no process of the group is left. Its lifetime depends on this object only, never on a
 * request.
 */
export class StdioTransport extends LineTransport {
  readonly kind = 'stdio';
  readonly #options: StdioTransportOptions;
  readonly #times: StdioTimes;
  #child: Child | null = null;
  #ladder: StopLadder | null = null;
  #stopped: Promise<void> = Promise.resolve();
  #brokenInput: NodeJS.Timeout | undefined;

  constructor(options: StdioTransportOptions) {
    super(options);
    this.#options = options;
    this.#times = { ...STDIO_TIMES, ...options.times };
  }

  override get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  protected async finish(how: CloseReason): Promise<void> {
    clearTimeout(this.#brokenInput);
    this.#ladder?.stop(how);
    await this.#stopped;
  }

  protected async start(): Promise<void> {
    const { server, spec, guard, environment, logger, owned } = this.#options;
    const launch: Launch = spec.ssh == null ? { spec, preamble: null } : overSsh(spec, spec.ssh, environment);
    const refusal = (): GatewayError | null => {
      if (this.state !== 'opening') return startFailure(server, 'it was stopped before it had started');
      return owned?.isHeld === false ? notOwned(server) : null;
    };
    const child = await spawnChild(server, launch.spec, { guard, environment, refusal });
    this.#child = child;
    // Logs what was run with the user's rights, without secrets.
    const { command, args } = sanitizedDefinition(spec);
    const host = spec.ssh == null ? {} : { host: spec.ssh.host };
    logger.info('process_started', { server, pid: child.pid, command, args, ...host });
    this.#attach(child, launch.preamble);
  }

  #attach(child: Child, preamble: Buffer | null): void {
    const { server, logger, clock } = this.#options;
    const ladder = new StopLadder(child.pid, () => child.stdin.end(), this.#times.ladder);
    this.#ladder = ladder;
    this.begin(child.stdin, preamble);
    const take: Take = (chunk, at, full) => this.output(chunk, at, full);
    const output = new SlicedReading(child.stdout, take, () => clock.now());
    const errors = new RestedReading(child.stderr, (chunk) => this.errors(chunk));
    child.stdout.on('error', () => {});
    child.stderr.on('error', () => {});
    child.stdin.on('error', () => this.#inputBroken());
    const exited = new Promise<void>((resolve) => {
      child.once('exit', (code, signal) => {
        if (this.state === 'open') this.state = 'dying';
        clearTimeout(this.#brokenInput);
        // The rest in its pipe is short and must not be lost because it is read in slices.
        output.flush();
        errors.flush();
        void this.#drained(child).then(() => {
          logger.info('process_ended', { server, pid: child.pid, code, signal });
          const how = signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
          if (this.disconnect(how)) this.ended({ kind: 'exited', code, signal });
          for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
          ladder.leaderExited();
          resolve();
        });
      });
    });
    this.#stopped = this.#watch(child.pid, ladder, exited);
  }

  async #watch(pid: number, ladder: StopLadder, exited: Promise<void>): Promise<void> {
    const clean = await ladder.done;
    const { server, guard, logger } = this.#options;
    if (clean) {
      await exited;
      guard.unregister(pid);
    } else {
      logger.warn('process_unkillable', { server, pid });
      // The number of a group that has ended may become that of another one.
      void exited.then(() => {
        if (!groupAlive(pid)) guard.unregister(pid);
      });
    }
  }

  /** Waits for the last output: until both streams end, or for a moment if a grandchild holds them open. */
  #drained(child: Child): Promise<void> {
    let open = 2;
    return new Promise((resolve) => {
      // After a late timer one more turn of the event loop, so that output already in the pipe is read first.
      const timer = setTimeout(() => setImmediate(resolve), this.#times.drainMs);
      const ended = (): void => {
        if (--open > 0) return;
        clearTimeout(timer);
        resolve();
      };
      for (const stream of [child.stdout, child.stderr]) {
        if (stream.closed) ended();
        else stream.once('close', ended);
      }
    });
  }

  /** EPIPE. Usually the exit follows at once; a process that continues without input is of no use. */
  #inputBroken(): void {
    if (this.state !== 'open') return;
    const given = (): void => {
      if (this.state === 'open') this.fail('has closed its input');
    };
    // A late timer may run before an exit that already happened: one more turn of the event loop, as above.
    this.#brokenInput = setTimeout(() => setImmediate(given), this.#times.brokenInputMs);
  }
}
