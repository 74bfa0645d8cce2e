import { startFailure } from '../process/command.ts';
import { LineChannel, type LineChannelDeps } from './line-channel.ts';
import type { CloseReason, NegotiatedFacts, Outgoing, Transport, TransportReceiver } from './transport.ts';

/**
 * What is the same for every server that speaks newline-framed messages over the standard streams of something that is
 * started for it: used once, nothing is sent before it has started or after it has ended, and its end is waited for.
 */
export abstract class LineTransport implements Transport {
  abstract readonly kind: Transport['kind'];
  readonly streamPerRequest = false;
  protected readonly channel: LineChannel;
  /** `dying`: exited or unusable, its last output still being read. */
  protected state: 'new' | 'opening' | 'open' | 'dying' | 'dead' | 'closed' = 'new';
  protected receiver: TransportReceiver | null = null;
  readonly #server: string;
  #opening: Promise<void> | null = null;

  constructor(deps: Omit<LineChannelDeps, 'flooded'>) {
    this.#server = deps.server;
    this.channel = new LineChannel({ ...deps, flooded: (what) => this.fail(what) });
  }

  get pid(): number | null {
    return null;
  }

  open(receiver: TransportReceiver): Promise<void> {
    if (this.state !== 'new') return Promise.reject(startFailure(this.#server, 'this transport was used before'));
    this.state = 'opening';
    this.receiver = receiver;
    this.channel.open(receiver);
    this.#opening = this.#open();
    return this.#opening;
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    if (this.state === 'open') this.channel.send(parts, outgoing);
    else if (this.state !== 'closed') this.channel.refuse(outgoing);
  }

  abandon(request: number): void {
    this.channel.abandon(request);
  }

  negotiated(_facts: NegotiatedFacts): void {}

  stderrTail(maxCharacters?: number): string {
    return this.channel.stderrTail(maxCharacters);
  }

  async close(how: CloseReason): Promise<void> {
    if (this.state !== 'closed') {
      this.state = 'closed';
      this.closing();
      this.channel.stop();
      this.channel.loseAll('was stopped');
    }
    // What is just being started is ended by whoever started it, or here when it has.
    await this.#opening?.catch(() => {});
    await this.finish(how);
  }

  /** Starts it and joins its streams to the channel. Rejects with GatewayError, nothing left behind. */
  protected abstract start(): Promise<void>;

  /** Ends it; resolves when nothing is left. May be called again, with a more urgent reason. */
  protected abstract finish(how: CloseReason): Promise<void>;

  /** It may be alive, but the conversation is over; `what` completes "the server …". */
  protected abstract fail(what: string): void;

  /** It is about to be closed for the first time. */
  protected closing(): void {}

  async #open(): Promise<void> {
    try {
      await this.start();
    } catch (error) {
      if (this.state === 'opening') this.state = 'dead';
      throw error;
    }
    if (this.state !== 'opening') throw startFailure(this.#server, 'it was stopped before it had started');
    this.state = 'open';
  }
}
