import type { Socket } from 'node:net';
import type { HttpContext } from '../context/http-context.ts';
import { COPY_BYTES, commentFrame, eventFrame, type SseFrame } from './sse-frame.ts';
import { PooledBlocks } from './stream-memory.ts';
import type { StreamWheel, WheelStream } from './stream-wheel.ts';

const HEADERS = [
  'Content-Type',
  'text/event-stream',
  'Cache-Control',
  'no-cache, no-transform',
  // nginx and its like would else collect events before they pass them on.
  'X-Accel-Buffering',
  'no',
] as const;

/** Handed to Node at once at most; between slices it is seen whether the client takes anything. */
const SLICE_BYTES = 256 * 1024;
const MAX_HELD_BYTES = 1024 * 1024;
/** What may stay of the limit when it is exceeded. */
const KEPT_OF_LIMIT = 7 / 8;
const KEEP_ALIVE = commentFrame('keep-alive');

interface QueuedFrame {
  frame: SseFrame;
  readonly droppable: boolean;
  /** A first part of it has been written; nothing may come in between. */
  readonly begun: boolean;
}

const WRITER = Symbol('sse writer');
interface ResponseWithWriter {
  [WRITER]?: SseWriter | undefined;
}

/**
 * Server-sent events on one HTTP response. Every event leaves at once for as long as the client reads; else events are
 * held back in order. Above 1 MiB, or the share of what all streams may hold, the oldest droppable ones are dropped and
 * a comment says how many. A client that takes nothing for 30 s is cut off. `event` returns false: pause the source
 * until `onDrain`.
 */
export class SseWriter implements WheelStream {
  readonly #http: HttpContext;
  readonly #socket: Socket;
  readonly #wheel: StreamWheel;
  readonly #maxHeldBytes: number;
  #queue: QueuedFrame[] | null = null;
  #heldBytes = 0;
  /** Handed to Node, and waiting there for a socket that takes nothing; part of `#heldBytes`' count on the wheel. */
  #stuckBytes = 0;
  #pooled: PooledBlocks | null = null;
  /** The stream before this one on a connection whose client did not wait for that to end (pipelining). */
  #before: SseWriter | null;
  #dropped = 0;
  #lastWrite = 0;
  #ending = false;
  #closed = false;
  /** Everything held back has been written; not called unless `event` returned false. */
  onDrain: (() => void) | null = null;
  /** The stream is gone before what was written is out: the client left, or was cut off. Called at most once. */
  onClose: (() => void) | null = null;

  /** `headers`: more of them, name and value alternating. */
  constructor(
    http: HttpContext,
    wheel: StreamWheel,
    headers: readonly string[] = [],
    maxHeldBytes: number = MAX_HELD_BYTES,
  ) {
    this.#http = http;
    this.#socket = http.socket;
    this.#wheel = wheel;
    this.#maxHeldBytes = maxHeldBytes;
    this.#lastWrite = wheel.tick;
    const carrier = this.#socket as ResponseWithWriter;
    this.#before = carrier[WRITER] ?? null;
    if (this.#before === null) this.#socket.on('drain', onSocketDrain);
    carrier[WRITER] = this;
    wheel.add(this);
    if (http.destroyed || this.#socket.destroyed || http.begun) {
      process.nextTick(() => this.#gone());
      return;
    }
    http.open([...HEADERS, ...headers]);
  }

  /** The client is gone, or `end` was called. Whatever is written then is dropped. */
  get closed(): boolean {
    return this.#closed || this.#ending;
  }

  /** More is held back than may be. */
  get stalled(): boolean {
    return this.#heldBytes > this.#maxHeldBytes;
  }

  /** Bytes that have not reached the operating system. */
  get pendingBytes(): number {
    return this.#heldBytes + this.#http.pendingBytes;
  }

  /** Sends one event. False: the client does not keep up. `droppable`: it may be dropped then. */
  event(id: string | null, parts: readonly Buffer[], droppable = false): boolean {
    return this.#send(eventFrame(id, parts), droppable);
  }

  /** An event with a name of its own, as 2024-11-05's `endpoint`. */
  named(event: string, data: string): boolean {
    return this.#send(eventFrame(null, [Buffer.from(data)], event), false);
  }

  comment(text: string): boolean {
    return this.#send(commentFrame(text), true);
  }

  /** How long the client shall wait before it reconnects. */
  retry(ms: number): boolean {
    const piece = Buffer.from(`retry: ${Math.trunc(ms)}\n\n`);
    return this.#send({ parts: [piece], length: piece.length }, false);
  }

  /** Ends the stream properly, after what is held back. Idempotent. */
  end(): void {
    if (this.#closed || this.#ending) return;
    this.#ending = true;
    this.#finishIfEmpty();
  }

  cut(): void {
    if (!this.#closed) this.#http.destroy();
    this.#gone();
  }

  keepAlive(tick: number): void {
    // Not when something was written since half a round: silence is then at most one and a half rounds.
    if (this.#closed || this.#ending || this.#blocked || tick - this.#lastWrite < this.#wheel.turns / 2) return;
    this.#write(KEEP_ALIVE);
  }

  get #blocked(): boolean {
    return this.#queue !== null || this.#full;
  }

  /** Where the kernel took everything at once there is only the event to come that says so. */
  get #full(): boolean {
    return this.#socket.writableNeedDrain && this.#socket.writableLength > 0;
  }

  #send(frame: SseFrame, droppable: boolean): boolean {
    if (this.#closed || this.#ending) return true;
    if (!this.#blocked && frame.length <= SLICE_BYTES) {
      this.#write(frame);
      if (this.#full) this.#stuck();
      return true;
    }
    this.#hold({ frame, droppable, begun: false });
    if (!this.#full) this.#pump();
    return this.#queue === null;
  }

  #write(frame: SseFrame): void {
    this.#lastWrite = this.#wheel.tick;
    this.takeBack();
    const { parts, inBlocks } = this.#inOwnMemory(frame);
    this.#http.write(parts);
    if (inBlocks === true) this.#lend(parts);
  }

  #lend(blocks: readonly Buffer[]): void {
    this.#pooled ??= new PooledBlocks(this.#http, this.#wheel.memory);
    this.#pooled.add(blocks);
    this.takeBack();
    if (this.#closed) this.#leavePooled();
    else if (this.#pooled !== null) this.#wheel.lending(this, true);
  }

  /** Called by the wheel, where no `drain` comes because little waits. */
  takeBack(): void {
    if (this.#pooled === null) return;
    this.#pooled.takeBack();
    if (!this.#pooled.none) return;
    this.#pooled = null;
    this.#wheel.lending(this, false);
  }

  #leavePooled(): void {
    this.#pooled?.leave();
    this.#pooled = null;
  }

  /** What may wait for the client: not for longer than it does may it keep alive what it came in. */
  #inOwnMemory(frame: SseFrame): SseFrame {
    // TLS keeps what it is given in its own way; and of more than a slice the rest is held back as it came anyway.
    const copies = frame.length > COPY_BYTES && frame.length < SLICE_BYTES && !('encrypted' in this.#socket);
    return copies && frame.inBlocks !== true ? this.#wheel.memory.copy(frame) : frame;
  }

  #hold(held: QueuedFrame): void {
    this.#queue ??= [];
    this.#queue.push(held);
    if (this.#full) this.#wheel.blocked(this);
    this.#count(held.frame.length);
    const most = Math.min(this.#maxHeldBytes, this.#wheel.shareBytes);
    // A little more than must be: the queue is not gone through anew for each of many small ones.
    if (this.#heldBytes > most && this.#queue !== null) this.#dropOldest(this.#heldBytes - most * KEPT_OF_LIMIT);
    if (this.#queue?.at(-1) === held) held.frame = this.#inOwnMemory(held.frame);
  }

  #dropOldest(bytes: number): void {
    const kept: QueuedFrame[] = [];
    let excess = bytes;
    for (const held of this.#queue!) {
      if (excess > 0 && held.droppable) {
        excess -= held.frame.length;
        this.#count(-held.frame.length);
        this.#forget(held.frame);
        this.#dropped += 1;
      } else {
        kept.push(held);
      }
    }
    this.#queue = kept;
  }

  /** Never written, and never will be. */
  #forget({ parts, inBlocks }: SseFrame): void {
    if (inBlocks === true) this.#wheel.memory.giveBack(parts);
  }

  #count(delta: number): void {
    this.#heldBytes += delta;
    this.#wheel.held(delta);
  }

  /** The client's side is full, and what Node holds for it counts as held back. May cut this stream. */
  #stuck(): void {
    this.#wheel.blocked(this);
    const before = this.#stuckBytes;
    this.#stuckBytes = this.#socket.writableLength;
    this.#wheel.held(this.#stuckBytes - before);
  }

  #unstuck(): void {
    if (this.#stuckBytes > 0) this.#wheel.held(-this.#stuckBytes);
    this.#stuckBytes = 0;
  }

  /** Writes what is held back, slice by slice, for as long as the socket takes it. */
  #pump(): void {
    while (this.#queue !== null && this.#queue.length > 0 && !this.#full && !this.#closed) {
      const first = this.#queue[0]!;
      if (!first.begun) this.#tellDropped();
      const [slice, rest] = cutFrame(first.frame, SLICE_BYTES);
      if (rest === null) this.#queue.shift();
      else this.#queue[0] = { frame: rest, droppable: false, begun: true };
      this.#count(-slice.length);
      this.#write(slice);
    }
    if (this.#queue !== null && this.#queue.length === 0) this.#queue = null;
    if (this.#full) this.#stuck();
    else this.#tellDropped();
    this.#finishIfEmpty();
  }

  #tellDropped(): void {
    if (this.#dropped === 0 || this.#closed) return;
    this.#write(commentFrame(`${this.#dropped} notifications were dropped: this client reads too slowly`));
    this.#dropped = 0;
  }

  #finishIfEmpty(): void {
    if (!this.#ending || this.#queue !== null || this.#closed) return;
    // Still on the wheel until the response is closed: the last bytes may meet a client that does not read.
    this.#http.end();
  }

  /** Called by the socket's `drain`. */
  drained(): void {
    this.#before?.drained();
    if (this.#closed) return;
    this.#wheel.flowing(this);
    this.#unstuck();
    this.takeBack();
    const waiting = this.#queue !== null;
    if (waiting) this.#pump();
    if (waiting && this.#queue === null && !this.closed) this.onDrain?.();
  }

  /** Called when the passage is over. */
  gone(): void {
    this.#gone();
  }

  #gone(): void {
    if (this.#closed) return;
    const notifies = !this.#ending || this.#queue !== null;
    this.#release();
    if (notifies) this.onClose?.();
  }

  #release(): void {
    this.#closed = true;
    if (this.#heldBytes > 0) this.#count(-this.#heldBytes);
    this.#unstuck();
    for (const { frame } of this.#queue ?? []) this.#forget(frame);
    this.#queue = null;
    this.#leavePooled();
    this.#wheel.remove(this);
    this.#leaveSocket();
  }

  #leaveSocket(): void {
    const carrier = this.#socket as ResponseWithWriter;
    let behind = carrier[WRITER] ?? null;
    if (behind === this) {
      carrier[WRITER] = this.#before ?? undefined;
      if (this.#before === null) this.#socket.removeListener('drain', onSocketDrain);
      return;
    }
    while (behind !== null && behind.#before !== this) behind = behind.#before;
    if (behind !== null) behind.#before = this.#before;
  }
}

/** Shared by all writers: a closure per open stream would be a good part of its memory. */
function onSocketDrain(this: Socket): void {
  (this as ResponseWithWriter)[WRITER]?.drained();
}

function cutFrame(frame: SseFrame, bytes: number): [SseFrame, SseFrame | null] {
  if (frame.length <= bytes) return [frame, null];
  const first: Buffer[] = [];
  const rest: Buffer[] = [];
  let room = bytes;
  for (const part of frame.parts) {
    if (room >= part.length) first.push(part);
    else if (room === 0) rest.push(part);
    else {
      first.push(part.subarray(0, room));
      rest.push(part.subarray(room));
    }
    room -= Math.min(room, part.length);
  }
  return [
    { parts: first, length: bytes },
    { parts: rest, length: frame.length - bytes },
  ];
}
