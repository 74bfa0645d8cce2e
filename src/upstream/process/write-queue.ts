import type { OwnedProcess } from '../../model/ports.ts';

/** The part of a writable stream that the queue needs. */
export interface QueueOutput {
  readonly writableLength: number;
  readonly errored: Error | null;
  write(chunk: Buffer, done: () => void): unknown;
  cork(): void;
  uncork(): void;
}

interface WaitingMessage {
  readonly parts: readonly Buffer[];
  readonly bytes: number;
  readonly request: number;
}

/** The reader; in a cluster one node at a time may write to it. */
export type HeldProcess = Pick<OwnedProcess, 'isHeld'>;

/** `closed`: the reader closed its input. */
type UnsentReason = 'closed' | 'not owned';

export interface QueueLimits {
  readonly maxBytes: number;
  readonly maxMessages: number;
}

const QUEUE_LIMITS: QueueLimits = { maxBytes: 4 * 1024 * 1024, maxMessages: 256 };

const LF = 0x0a;
const NEWLINE = Buffer.of(LF);
/** Up to this size one copied buffer and one write cost less than a vectored write. */
const COPY_BYTES = 32 * 1024;
/** Bytes of several messages that share one write. If the reader dies, it is unknown which of them it took. */
const SHARED_BYTES = 16 * 1024;

/**
 * Queue of messages for a pipe, one line each. Messages sent together, such as calls that another node sent together, are
 * written together. At most one write is in the stream's own buffer; other messages wait here, where they can be counted,
 * limited, withdrawn and, if the reader dies, known to be unsent.
 *
 * The queue asks whether this node owns the reader just before each write, because the node may stand still between the send
 * and the write: then another node may own it, and the messages are dropped.
 */
export class WriteQueue {
  readonly #output: QueueOutput;
  readonly #limits: QueueLimits;
  readonly #owned: HeldProcess | null;
  readonly #unsent: (request: number, why: UnsentReason) => void;
  readonly #written = (): void => this.#pump();
  readonly #gathered = (): void => {
    this.#gathering = false;
    this.#pump();
  };
  #waiting: WaitingMessage[] = [];
  #waitingBytes = 0;
  /** The write is deferred to a microtask, because more messages may be sent now. */
  #gathering = false;
  #ended = false;

  /** `unsent`: called for a request of which the pipe took no byte; `end` returns those that were never handed over. */
  constructor(
    output: QueueOutput,
    owned: HeldProcess | null,
    unsent: (request: number, why: UnsentReason) => void,
    limits: QueueLimits = QUEUE_LIMITS,
  ) {
    this.#output = output;
    this.#owned = owned;
    this.#unsent = unsent;
    this.#limits = limits;
  }

  /** Writes a line before all messages, also if this node lost the reader: it would take a later message for this line. */
  begin(line: Buffer): void {
    const bytes = line.length + 1;
    this.#hand([{ parts: [line], bytes, request: 0 }], bytes);
  }

  /** False if the queue is full: the message is not queued. An empty queue accepts a message of any size. */
  push(parts: readonly Buffer[], request: number): boolean {
    let bytes = 1;
    for (const part of parts) bytes += part.length;
    if (this.#ended) return false;
    if (this.#full(bytes) && this.#gathering) this.#pump();
    if (this.#full(bytes)) return false;
    this.#waiting.push({ parts, bytes, request });
    this.#waitingBytes += bytes;
    if (!this.#gathering && this.#output.writableLength === 0) {
      this.#gathering = true;
      queueMicrotask(this.#gathered);
    }
    return true;
  }

  /** Removes a request of which no byte was handed over. */
  withdraw(request: number): void {
    const at = this.#waiting.findIndex((entry) => entry.request === request);
    if (at < 0) return;
    this.#waitingBytes -= this.#waiting[at]!.bytes;
    this.#waiting.splice(at, 1);
  }

  /** Ends the queue. Returns the requests that were neither handed over nor reported as unsent, oldest first. */
  end(): number[] {
    if (this.#gathering) this.#pump();
    this.#ended = true;
    const requests = this.#waiting.filter((entry) => entry.request > 0).map((entry) => entry.request);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return requests;
  }

  #full(bytes: number): boolean {
    const { maxMessages, maxBytes } = this.#limits;
    const { length } = this.#waiting;
    return length >= maxMessages || (length > 0 && this.#waitingBytes + bytes > maxBytes);
  }

  #pump(): void {
    while (!this.#ended && this.#waiting.length > 0 && this.#output.writableLength === 0) {
      if (this.#owned?.isHeld === false) {
        this.#drop();
        return;
      }
      let count = 1;
      let bytes = this.#waiting[0]!.bytes;
      for (; count < this.#waiting.length; count++) {
        const more = bytes + this.#waiting[count]!.bytes;
        if (more > SHARED_BYTES) break;
        bytes = more;
      }
      this.#waitingBytes -= bytes;
      this.#hand(this.#waiting.splice(0, count), bytes);
    }
  }

  #drop(): void {
    const dropped = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const { request } of dropped) if (request > 0) this.#unsent(request, 'not owned');
  }

  #hand(entries: readonly WaitingMessage[], bytes: number): void {
    const brokenBefore = this.#output.errored !== null;
    if (bytes <= COPY_BYTES) {
      this.#output.write(lines(entries, bytes), this.#written);
    } else {
      this.#output.cork();
      for (const part of entries[0]!.parts) if (part.length > 0) this.#output.write(part, ignore);
      this.#output.write(NEWLINE, this.#written);
      this.#output.uncork();
    }
    // The stream writes to the pipe within the call. An error set now means that the pipe took nothing of these messages.
    if (!brokenBefore && this.#output.errored === null) return;
    for (const { request } of entries) if (request > 0) this.#unsent(request, 'closed');
  }
}

function lines(entries: readonly WaitingMessage[], bytes: number): Buffer {
  const all = Buffer.allocUnsafe(bytes);
  let end = 0;
  for (const { parts } of entries) {
    for (const part of parts) {
      all.set(part, end);
      end += part.length;
    }
    all[end++] = LF;
  }
  return all;
}

function ignore(): void {}
