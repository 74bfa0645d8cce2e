import { type Clock, systemClock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { StdioSpec } from '../../model/server.ts';
import { startFailure } from '../process/command.ts';
import type { ProcessLog } from '../process/log-limit.ts';
import { MessageReader } from '../process/message-reader.ts';
import type { ProcessGuard } from '../process/process-guard.ts';
import { type Child, spawnChild } from '../process/spawn-child.ts';
import { type Launch, overSsh } from '../process/ssh-command.ts';
import { StderrTail } from '../process/stderr-tail.ts';
import { LADDER_TIMES, type LadderTimes, StopLadder } from '../process/stop-ladder.ts';
import { WriteQueue } from '../process/write-queue.ts';
import { answeredRequest } from './answered-request.ts';
import { InFlight } from './in-flight.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from './transport.ts';

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

export interface StdioTimes {
  readonly ladder: LadderTimes;
  /** After the process's exit: how long its last words are waited for when something else keeps the pipe open. */
  readonly drainMs: number;
  /** A process that closed its input and does not exit within this has ended the conversation. */
  readonly brokenInputMs: number;
}

export const STDIO_TIMES: StdioTimes = { ladder: LADDER_TIMES, drainMs: 50, brokenInputMs: 250 };

const TAIL_CHARACTERS = 4096;
const LF = 0x0a;

/**
 * A process that speaks newline-framed JSON-RPC on its standard streams: a local one, or ssh with one behind it.
 *
 * Guarantees: every request gets its answer or one `lost`, whatever the process does: within 100 ms of its exit, at once
 * when it takes nothing more. A request no byte of which was taken by the pipe is NOT_SENT, every other one UNKNOWN. Junk
 * and overlong lines cost a line, not the connection. The process is leader of a group of its own, registered with the
 * reaper; when the transport has ended, by `close` or by itself, nothing of the group is left. Its life is bound to
 * this object only, never to a request.
 */
export class StdioTransport implements Transport {
  readonly kind = 'stdio';
  readonly streamPerRequest = false;
  readonly #deps: StdioTransportDeps;
  readonly #times: StdioTimes;
  readonly #stderr: StderrTail;
  readonly #reader: MessageReader;
  /** Requests without an answer so far, waiting ones included. */
  readonly #inFlight = new InFlight();
  /** `dying`: exited or unusable, its last output still being read. */
  #state: 'new' | 'opening' | 'open' | 'dying' | 'dead' | 'closed' = 'new';
  #opening: Promise<void> | null = null;
  #receiver: TransportReceiver | null = null;
  #child: Child | null = null;
  #queue: WriteQueue | null = null;
  #ladder: StopLadder | null = null;
  #gone: Promise<void> = Promise.resolve();
  #brokenInput: NodeJS.Timeout | undefined;

  constructor(deps: StdioTransportDeps) {
    this.#deps = deps;
    this.#times = { ...STDIO_TIMES, ...deps.times };
    const { logger, redact, maxMessageBytes } = deps;
    const clock = deps.clock ?? systemClock;
    this.#stderr = new StderrTail({ logger, redact, clock });
    this.#reader = new MessageReader(
      {
        message: (bytes) => this.#received(bytes),
        answered: answeredRequest,
        tooLarge: (request) => this.#tooLarge(request),
        flooded: () => this.#fail('floods its standard output with what is no message'),
      },
      { logger, redact, clock, maxMessageBytes },
    );
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  open(receiver: TransportReceiver): Promise<void> {
    if (this.#state !== 'new') return Promise.reject(startFailure(this.#deps.server, 'this transport was used before'));
    this.#state = 'opening';
    this.#receiver = receiver;
    this.#opening = this.#open();
    return this.#opening;
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request } = outgoing;
    if (this.#state === 'closed') return;
    if (this.#state !== 'open' || this.#queue === null) {
      if (request > 0) this.#lose(request, this.#error('NOT_SENT', 'is not running'));
      return;
    }
    if (parts.some((part) => part.includes(LF))) {
      this.#refuse(outgoing, this.#error('INTERNAL', 'cannot be sent a message with a line break', 'NOT_SENT'));
      return;
    }
    this.#inFlight.add(request);
    if (!this.#queue.push(parts, request)) {
      this.#refuse(outgoing, this.#error('OVERLOADED', 'does not take its messages; too many are waiting'));
    }
  }

  abandon(request: number): void {
    if (this.#inFlight.delete(request)) this.#queue?.withdraw(request);
  }

  negotiated(_facts: NegotiatedFacts): void {}

  /** Lines on standard output that were no messages. */
  get skippedLines(): number {
    return this.#reader.skippedLines;
  }

  stderrTail(maxCharacters = TAIL_CHARACTERS): string {
    return this.#stderr.text(maxCharacters);
  }

  async close(how: CloseReason): Promise<void> {
    if (this.#state !== 'closed') {
      this.#state = 'closed';
      clearTimeout(this.#brokenInput);
      this.#reader.stop();
      this.#loseAll('was stopped');
    }
    // A process that is just being started is stopped by `#open` before it rejects.
    await this.#opening?.catch(() => {});
    this.#ladder?.stop(how);
    await this.#gone;
  }

  async #open(): Promise<void> {
    const { spec, environment = process.env } = this.#deps;
    const launch: Launch = spec.ssh == null ? { spec, preamble: null } : overSsh(spec, spec.ssh, environment);
    try {
      this.#child = await spawnChild(this.#deps.server, launch.spec, {
        guard: this.#deps.guard,
        environment,
        unwanted: () => this.#state !== 'opening',
      });
    } catch (error) {
      if (this.#state === 'opening') this.#state = 'dead';
      throw error;
    }
    // What was run with the user's rights is on record; secrets among the arguments are masked by the logger.
    const { command, args, ssh } = spec;
    const host = ssh == null ? {} : { host: ssh.host };
    this.#deps.logger.info('process_started', {
      server: this.#deps.server,
      pid: this.#child.pid,
      command,
      args,
      ...host,
    });
    this.#attach(this.#child);
    if (launch.preamble !== null) this.#queue?.push([launch.preamble], 0);
    if (this.#state !== 'opening') throw startFailure(this.#deps.server, 'it was stopped before it had started');
    this.#state = 'open';
  }

  #attach(child: Child): void {
    const ladder = new StopLadder(child.pid, () => child.stdin.end(), this.#times.ladder);
    this.#ladder = ladder;
    this.#queue = new WriteQueue(child.stdin, (request) => {
      if (this.#inFlight.has(request)) this.#lose(request, this.#error('NOT_SENT', 'has closed its input'));
    });
    child.stdout.on('data', (chunk: Buffer) => this.#reader.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => this.#stderr.push(chunk));
    child.stdout.on('error', () => {});
    child.stderr.on('error', () => {});
    child.stdin.on('error', () => this.#inputBroken());
    const exited = new Promise<void>((resolve) => {
      child.once('exit', (code, signal) => {
        if (this.#state === 'open') this.#state = 'dying';
        clearTimeout(this.#brokenInput);
        void this.#drained(child).then(() => {
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

  #received(bytes: Buffer): void {
    this.#inFlight.settle(bytes);
    this.#receiver?.received(bytes, 0);
  }

  #tooLarge(request: number): void {
    if (!this.#inFlight.has(request)) return;
    const limit = this.#deps.maxMessageBytes;
    this.#lose(request, this.#error('TOO_LARGE', `answered with more than the limit of ${limit} bytes`));
  }

  /** EPIPE. Mostly the exit follows at once; a process that lives on without an input is of no use any more. */
  #inputBroken(): void {
    if (this.#state !== 'open') return;
    this.#brokenInput = setTimeout(() => this.#fail('has closed its input'), this.#times.brokenInputMs);
  }

  /** The process is alive but the conversation is over. */
  #fail(what: string): void {
    if (this.#state !== 'open' && this.#state !== 'dying') return;
    this.#reader.stop();
    this.#end({ kind: 'protocol', error: this.#error('UPSTREAM_PROTOCOL', what) });
    this.#ladder?.stop('interrupt');
  }

  #end(reason: ClosedReason): void {
    if (this.#state !== 'open' && this.#state !== 'dying') return;
    this.#state = 'dead';
    clearTimeout(this.#brokenInput);
    this.#reader.stop();
    this.#loseAll(reason.kind === 'exited' ? ending(reason.code, reason.signal) : 'was given up');
    this.#receiver?.closed(reason);
  }

  #loseAll(what: string): void {
    for (const request of this.#queue?.end() ?? []) {
      if (this.#inFlight.has(request)) this.#lose(request, this.#error('NOT_SENT', `${what} before it took the call`));
    }
    for (const request of this.#inFlight.takeAll()) {
      this.#lose(request, this.#error('UNKNOWN', `${what} before it answered; the call may have run`));
    }
  }

  #refuse(outgoing: Outgoing, error: GatewayError): void {
    if (outgoing.request > 0) this.#lose(outgoing.request, error);
    else
      this.#deps.logger.warn('message_dropped', {
        server: this.#deps.server,
        method: outgoing.method,
        reason: error.message,
      });
  }

  #lose(request: number, error: GatewayError): void {
    this.#inFlight.delete(request);
    this.#receiver?.lost(request, error);
  }

  #error(code: GatewayError['code'], what: string, outcome?: GatewayError['outcome']): GatewayError {
    const { server } = this.#deps;
    return new GatewayError(
      code,
      `The server ${server} ${what}.`,
      outcome === undefined ? { server } : { server, outcome },
    );
  }
}

function ending(code: number | null, signal: string | null): string {
  return signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
}
