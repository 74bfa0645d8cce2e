import { type Clock, systemClock } from '../../model/clock.ts';
import type { StdioSpec } from '../../model/server.ts';
import { sweptDefinition } from '../../model/swept-definition.ts';
import type { ProcessLog } from '../process/log-limit.ts';
import type { ProcessGuard } from '../process/reaper.ts';
import { RestedReading, SlicedReading, type Take } from '../process/sliced-reading.ts';
import { type Child, spawnChild } from '../process/spawn-child.ts';
import { type Launch, overSsh } from '../process/ssh-command.ts';
import { LADDER_TIMES, type LadderTimes, StopLadder } from '../process/stop-ladder.ts';
import { LineTransport } from './line-transport.ts';
import type { ClosedReason, CloseReason } from './transport.ts';

export interface StdioTransportDeps {
  /** The server's name, for messages. */
  readonly server: string;
  readonly spec: StdioSpec;
  readonly maxMessageBytes: number;
  readonly guard: ProcessGuard;
  readonly logger: ProcessLog;
  /** Masks every secret known to this process; standard error and foreign lines go through it. */
  readonly redact: (text: string) => string;
  readonly clock?: Clock;
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly times?: Partial<StdioTimes>;
}

interface StdioTimes {
  readonly ladder: LadderTimes;
  /** After the process's exit: how long its last words are waited for when something else keeps the pipe open. */
  readonly drainMs: number;
  /** A process that closed its input and does not exit within this has ended the conversation. */
  readonly brokenInputMs: number;
}

const STDIO_TIMES: StdioTimes = { ladder: LADDER_TIMES, drainMs: 50, brokenInputMs: 250 };

/**
 * A process that speaks newline-framed JSON-RPC on its standard streams: a local one, or ssh with one behind it.
 *
 * Guarantees: every request gets its answer or one `lost`, whatever the process does: within 100 ms of its exit, at once
 * when it takes nothing more. The process is leader of a group of its own, registered with the
 * reaper; when the transport has ended, by `close` or by itself, nothing of the group is left. Its life is bound to
 * this object only, never to a request.
 */
export class StdioTransport extends LineTransport {
  readonly kind = 'stdio';
  readonly #deps: StdioTransportDeps;
  readonly #times: StdioTimes;
  #child: Child | null = null;
  #ladder: StopLadder | null = null;
  #gone: Promise<void> = Promise.resolve();
  #brokenInput: NodeJS.Timeout | undefined;

  constructor(deps: StdioTransportDeps) {
    const { server, logger, redact, maxMessageBytes, clock = systemClock } = deps;
    super({ server, logger, redact, maxMessageBytes, clock });
    this.#deps = deps;
    this.#times = { ...STDIO_TIMES, ...deps.times };
  }

  override get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  get skippedLines(): number {
    return this.channel.skippedLines;
  }

  protected override closing(): void {
    clearTimeout(this.#brokenInput);
  }

  protected async finish(how: CloseReason): Promise<void> {
    this.#ladder?.stop(how);
    await this.#gone;
  }

  protected async start(): Promise<void> {
    const { spec, environment = process.env } = this.#deps;
    const launch: Launch = spec.ssh == null ? { spec, preamble: null } : overSsh(spec, spec.ssh, environment);
    this.#child = await spawnChild(this.#deps.server, launch.spec, {
      guard: this.#deps.guard,
      environment,
      unwanted: () => this.state !== 'opening',
    });
    // What was run with the user's rights is on record, without secrets.
    const { command, args } = sweptDefinition(spec);
    const { ssh } = spec;
    const host = ssh == null ? {} : { host: ssh.host };
    this.#deps.logger.info('process_started', {
      server: this.#deps.server,
      pid: this.#child.pid,
      command,
      args,
      ...host,
    });
    this.#attach(this.#child, launch.preamble);
  }

  #attach(child: Child, preamble: Buffer | null): void {
    const ladder = new StopLadder(child.pid, () => child.stdin.end(), this.#times.ladder);
    this.#ladder = ladder;
    this.channel.begin(child.stdin, preamble);
    const { clock = systemClock } = this.#deps;
    const take: Take = (chunk, at, full) => this.channel.output(chunk, at, full);
    const output = new SlicedReading(child.stdout, take, () => clock.now());
    const errors = new RestedReading(child.stderr, (chunk) => this.channel.errors(chunk));
    child.stdout.on('error', () => {});
    child.stderr.on('error', () => {});
    child.stdin.on('error', () => this.#inputBroken());
    const exited = new Promise<void>((resolve) => {
      child.once('exit', (code, signal) => {
        if (this.state === 'open') this.state = 'dying';
        clearTimeout(this.#brokenInput);
        // What it has left in its pipe is little, and none of it may be missed for being read in slices.
        output.flush();
        errors.flush();
        void this.#drained(child).then(() => {
          this.#deps.logger.info('process_ended', { server: this.#deps.server, pid: child.pid, code, signal });
          this.#end({ kind: 'exited', code, signal });
          for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
          ladder.leaderExited();
          resolve();
        });
      });
    });
    this.#gone = this.#watch(child.pid, ladder, exited);
  }

  async #watch(pid: number, ladder: StopLadder, exited: Promise<void>): Promise<void> {
    const clean = await ladder.done;
    if (clean) {
      await exited;
      this.#deps.guard.unregister(pid);
    } else {
      this.#deps.logger.warn('process_unkillable', { server: this.#deps.server, pid });
    }
  }

  /** The process's last words: up to the end of both streams, or for a moment where a grandchild holds them open. */
  #drained(child: Child): Promise<void> {
    let open = 2;
    return new Promise((resolve) => {
      // After a late timer one more round of the event loop: what is in the pipe by now is read first.
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

  /** EPIPE. Mostly the exit follows at once; a process that lives on without an input is of no use any more. */
  #inputBroken(): void {
    if (this.state !== 'open') return;
    const given = (): void => {
      if (this.state === 'open') this.fail('has closed its input');
    };
    // A late timer comes before an exit that has happened meanwhile: one more round of the event loop, as above.
    this.#brokenInput = setTimeout(() => setImmediate(given), this.#times.brokenInputMs);
  }

  /** The process is alive but the conversation is over. */
  protected fail(what: string): void {
    if (this.state !== 'open' && this.state !== 'dying') return;
    this.channel.stop();
    this.#end({ kind: 'protocol', error: this.channel.error('UPSTREAM_PROTOCOL', what) });
    this.#ladder?.stop('interrupt');
  }

  #end(reason: ClosedReason): void {
    if (this.state !== 'open' && this.state !== 'dying') return;
    this.state = 'dead';
    clearTimeout(this.#brokenInput);
    this.channel.stop();
    this.channel.loseAll(reason.kind === 'exited' ? ending(reason.code, reason.signal) : 'was given up');
    this.receiver?.closed(reason);
  }
}

function ending(code: number | null, signal: string | null): string {
  return signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
}
