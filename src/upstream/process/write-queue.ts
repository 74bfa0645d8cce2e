/** The part of a writable stream the queue needs. */
export interface QueueOutput {
  readonly writableLength: number;
  readonly errored: Error | null;
  write(chunk: Buffer, done: () => void): unknown;
  cork(): void;
  uncork(): void;
}

interface Waiting {
  readonly parts: readonly Buffer[];
  readonly bytes: number;
  readonly request: number;
}

export interface QueueLimits {
  readonly maxBytes: number;
  readonly maxMessages: number;
}

export const QUEUE_LIMITS: QueueLimits = { maxBytes: 4 * 1024 * 1024, maxMessages: 256 };

const NEWLINE = Buffer.from('\n');
/** Up to here one copied buffer and one write are cheaper than a vectored one. */
const JOIN_BYTES = 32 * 1024;

/**
 * Messages on their way into a pipe, one line each. At most one is in the stream's own buffer; the others wait here
 * where they can be counted, bounded, withdrawn and, when the reader dies, known for certain to be unsent.
 */
export class WriteQueue {
  readonly #output: QueueOutput;
  readonly #limits: QueueLimits;
  readonly #unsent: (request: number) => void;
  readonly #written = (): void => this.#pump();
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #ended = false;

  /** `unsent` is told of a request no byte of which was taken by the pipe, outside of `end`. */
  constructor(output: QueueOutput, unsent: (request: number) => void, limits: QueueLimits = QUEUE_LIMITS) {
    this.#output = output;
    this.#unsent = unsent;
    this.#limits = limits;
  }

  /** False when the queue is full: the message was not taken. One message of any size is taken when none waits. */
  push(parts: readonly Buffer[], request: number): boolean {
    let bytes = 1;
    for (const part of parts) bytes += part.length;
    if (this.#ended) return false;
    const entry = { parts, bytes, request };
    if (this.#waiting.length === 0 && this.#output.writableLength === 0) {
      this.#hand(entry);
      return true;
    }
    const full =
      this.#waiting.length >= this.#limits.maxMessages ||
      (this.#waiting.length > 0 && this.#waitingBytes + bytes > this.#limits.maxBytes);
    if (full) return false;
    this.#waiting.push(entry);
    this.#waitingBytes += bytes;
    return true;
  }

  /** Takes a request back if no byte of it has been handed over. */
  withdraw(request: number): void {
    const at = this.#waiting.findIndex((entry) => entry.request === request);
    if (at < 0) return;
    this.#waitingBytes -= this.#waiting[at]!.bytes;
    this.#waiting.splice(at, 1);
  }

  /** Nothing is written any more. Returns the requests that were never handed over, oldest first. */
  end(): number[] {
    this.#ended = true;
    const requests = this.#waiting.filter((entry) => entry.request > 0).map((entry) => entry.request);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return requests;
  }

  #pump(): void {
    while (!this.#ended && this.#waiting.length > 0 && this.#output.writableLength === 0) {
      const entry = this.#waiting.shift()!;
      this.#waitingBytes -= entry.bytes;
      this.#hand(entry);
    }
  }

  #hand(entry: Waiting): void {
    const { parts, bytes } = entry;
    const brokenBefore = this.#output.errored !== null;
    if (bytes <= JOIN_BYTES) {
      this.#output.write(Buffer.concat([...parts, NEWLINE], bytes), this.#written);
    } else {
      this.#output.cork();
      for (const part of parts) if (part.length > 0) this.#output.write(part, ignore);
      this.#output.write(NEWLINE, this.#written);
      this.#output.uncork();
    }
    // The pipe is tried within the call. An error that is there already means that it took nothing of this message.
    if (entry.request > 0 && (brokenBefore || this.#output.errored !== null)) this.#unsent(entry.request);
  }
}

function ignore(): void {}
