import { withTimeout } from '../../model/clock.ts';
import { sanitizedDefinition } from '../../model/sanitized-definition.ts';
import type { DockerSpec } from '../../model/server.ts';
import { messageOf } from '../../model/thrown.ts';
import { type AttachedContainer, type ContainerHost, stopContainer } from '../docker/container.ts';
import { startFailure } from '../process/command.ts';
import { SlicedReading, type Take } from '../process/sliced-reading.ts';
import { LADDER_TIMES, type LadderTimes } from '../process/stop-ladder.ts';
import { LineTransport, type LineTransportOptions } from './line-transport.ts';
import type { CloseReason } from './transport.ts';

const HEADER = 8;
const STDOUT = 1;
const STDERR = 2;

/**
 * Parses the stream of an attached container (Engine API, "Stream format"): an eight-byte header names the stream and the
 * length of each frame. Payload is forwarded as it arrives, whatever the frame's length, so that only a header is buffered.
 */
class Frames {
  readonly #transport: LineTransport;
  readonly #header = Buffer.alloc(HEADER);
  #headerBytes = 0;
  #stream = 0;
  #left = 0;
  #broken = false;

  constructor(transport: LineTransport) {
    this.#transport = transport;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#broken) {
      if (this.#left > 0) {
        const piece = chunk.subarray(at, at + this.#left);
        at += piece.length;
        this.#left -= piece.length;
        if (this.#stream === STDOUT) this.#transport.output(piece);
        else if (this.#stream === STDERR) this.#transport.errors(piece);
      } else {
        const taken = chunk.copy(this.#header, this.#headerBytes, at, at + HEADER - this.#headerBytes);
        at += taken;
        this.#headerBytes += taken;
        if (this.#headerBytes === HEADER) this.#begin();
      }
    }
  }

  #begin(): void {
    this.#headerBytes = 0;
    this.#stream = this.#header[0]!;
    this.#left = this.#header.readUInt32BE(4);
    if (this.#stream <= STDERR && this.#header[1] === 0 && this.#header[2] === 0 && this.#header[3] === 0) return;
    this.#broken = true;
    this.#transport.fail('has streams that are none of a container engine');
  }
}

interface DockerTransportOptions extends LineTransportOptions {
  readonly spec: DockerSpec;
  readonly host: ContainerHost;
  readonly ladder?: LadderTimes['reasons'];
}

/** How long the engine has to report an exit code after the streams have ended. */
const EXIT_CODE_MS = 500;
/** Output is handled in pieces of this size; `full` is asked before each. */
const PIECE_BYTES = 4 * 1024;

/**
 * A process in a container, reached through its engine's API (S2.8): run from an image, or a container of the user that is
 * attached to. It gives callers the guarantees of a local process. A container that was run is removed with this object, or by
 * the next gateway of the same data folder if this one is killed; an attached one loses its input and continues.
 */
export class DockerTransport extends LineTransport {
  readonly kind = 'docker';
  readonly #options: DockerTransportOptions;
  #container: AttachedContainer | null = null;
  #stopped: Promise<void> | null = null;
  /** Resolves when the container must end at once, whatever reason its end began with. */
  readonly #interrupted = Promise.withResolvers<void>();
  /** Ends the engine's requests that have no short limit: those of the start, and the wait for the exit. */
  readonly #left = new AbortController();

  constructor(options: DockerTransportOptions) {
    super(options);
    this.#options = options;
  }

  protected async start(): Promise<void> {
    const { server, spec, host, logger } = this.#options;
    try {
      this.#container = await host.open(server, spec, this.#left.signal);
    } catch (cause) {
      this.#left.abort();
      const words = messageOf(cause);
      throw startFailure(server, words.replace(/\.$/, ''), cause);
    }
    const { id } = this.#container;
    const what = 'image' in spec.target ? { image: sanitizedDefinition(spec).container } : {};
    logger.info('container_started', { server, container: id.slice(0, 12), ...what });
    this.#attach(this.#container);
  }

  override close(how: CloseReason): Promise<void> {
    if (this.#container === null) this.#left.abort();
    return super.close(how);
  }

  #attach({ stream, tty }: AttachedContainer): void {
    this.begin(stream);
    const frames = new Frames(this);
    const take: Take = tty
      ? (chunk, at, full) => this.output(chunk, at, full)
      : (chunk, at, full) => {
          let next = at;
          for (; next < chunk.length && !full(); next += PIECE_BYTES)
            frames.push(chunk.subarray(next, next + PIECE_BYTES));
          return next;
        };
    const reading = new SlicedReading(stream, take, () => this.#options.clock.now());
    stream.on('error', () => {});
    stream.once('close', () => {
      reading.flush();
      void this.#ended();
    });
    // The engine ends the readable side when the container has ended, and at no other time.
    stream.once('end', () => stream.destroy());
  }

  /** In-flight calls are lost at once; the exit code follows. */
  async #ended(): Promise<void> {
    if (!this.disconnect('ended')) return;
    const { logger, server, clock } = this.#options;
    const { id, exited } = this.#container!;
    const code = await withTimeout(clock, EXIT_CODE_MS, exited, () => null);
    logger.info('container_ended', { server, container: id.slice(0, 12), code });
    this.ended({ kind: 'exited', code, signal: null });
    await this.finish('interrupt');
  }

  protected finish(how: CloseReason): Promise<void> {
    if (how === 'interrupt') this.#interrupted.resolve();
    this.#stopped ??= this.#end(how);
    return this.#stopped;
  }

  /** Closes the input, then SIGTERM, then SIGKILL, as for any process; then removes the container. */
  async #end(how: CloseReason): Promise<void> {
    const container = this.#container;
    if (container === null) return;
    const { spec, server, host, logger, clock, ladder = LADDER_TIMES.reasons } = this.#options;
    const { id, stream, exited } = container;
    if (!stream.destroyed && !stream.writableEnded) stream.end();
    if ('image' in spec.target) {
      const { closeMs, terminateMs } = ladder[how];
      try {
        const ended = exited.then(() => true);
        const interrupted = this.#interrupted.promise.then(() => false);
        if (!(await Promise.race([withTimeout(clock, closeMs, ended, () => false), interrupted]))) {
          const stopped = stopContainer(container, terminateMs);
          // On `interrupt`, a second stop with a shorter timeout follows.
          const sooner = interrupted.then(() => stopContainer(container, ladder.interrupt.terminateMs));
          await (how === 'interrupt' ? stopped : Promise.race([stopped, sooner]));
        }
        await host.remove(container);
      } catch (cause) {
        logger.warn('container_left', { server, container: id.slice(0, 12), reason: messageOf(cause) });
      }
    }
    stream.destroy();
    this.#left.abort();
  }
}
