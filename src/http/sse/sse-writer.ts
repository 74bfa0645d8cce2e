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
  // Without it nginx and similar proxies buffer events.
  'X-Accel-Buffering',
  'no',
] as const;

/** Most bytes handed to Node at once; between slices the writer checks whether the client takes them. */
const SLICE_BYTES = 256 * 1024;
const MAX_HELD_BYTES = 1024 * 1024;
/** The share of the limit to which the queue is reduced when it is exceeded. */
const KEPT_OF_LIMIT = 7 / 8;
const KEEP_ALIVE = commentFrame('keep-alive');

interface QueuedFrame {
  frame: SseFrame;
  readonly droppable: boolean;
  /** Its first part has been written; nothing may be written in between. */
  readonly started: boolean;
}

const WRITER = Symbol('sse writer');
interface ResponseWithWriter {
  [WRITER]?: SseWriter | undefined;
}

/**
 * Server-sent events on one HTTP response. Every event is written at once while the client reads; else events are queued in
 * order. Above 1 MiB, or the stream's share of what all streams may hold, the oldest droppable ones are dropped and a
 * comment reports how many. A client that takes nothing for 30 s is disconnected. `event` returns false: pause the source
 * until `onDrain`.
 */
export class SseWriter implements WheelStream {
  readonly #http: HttpContext;
  readonly #socket: Socket;
  readonly #wheel: StreamWheel;
  #queue: QueuedFrame[] | null = null;
  #heldBytes = 0;
  /** Bytes that Node buffers for a blocked socket; counted on the wheel in addition to `#heldBytes`. */
  #stuckBytes = 0;
  #pooled: PooledBlocks | null = null;
  /** The previous stream on the connection of a client that pipelines requests. */
  #before: SseWriter | null;
  #dropped = 0;
  #lastWrite = 0;
  #ending = false;
  #closed = false;
  /** Called when everything queued has been written; only after `event` returned false. */
  onDrain: (() => void) | null = null;
  /** Called at most once, if the stream ends before everything is sent: the client left, or was disconnected. */
  onClose: (() => void) | null = null;

  /** `headers`: additional ones, name and value alternating. */
  constructor(http: HttpContext, wheel: StreamWheel, headers: readonly string[]) {
    this.#http = http;
    this.#socket = http.socket;
    this.#wheel = wheel;
    this.#lastWrite = wheel.tick;
    const carrier = this.#socket as ResponseWithWriter;
    this.#before = carrier[WRITER] ?? null;
    if (this.#before === null) this.#socket.on('drain', onSocketDrain);
    carrier[WRITER] = this;
    wheel.add(this);
    if (http.destroyed || this.#socket.destroyed || http.headersSent) {
      process.nextTick(() => this.gone());
      return;
    }
    http.open([...HEADERS, ...headers]);
  }

  /** The client is gone, or `end` was called. Later writes are dropped. */
  get closed(): boolean {
    return this.#closed || this.#ending;
  }

  /** Bytes that have not reached the operating system. */
  get pendingBytes(): number {
    return this.#heldBytes + this.#http.pendingBytes;
  }

  /** Sends one event. False: the client does not keep up. `droppable`: the event may be dropped then. */
  event(id: string | null, parts: readonly Buffer[], droppable = false): boolean {
    return this.#send(eventFrame(id, parts), droppable);
  }

  /** Sends an event with a name, such as `endpoint` of 2024-11-05. */
  named(event: string, data: string): boolean {
    return this.#send(eventFrame(null, [Buffer.from(data)], event), false);
  }

  /** Sets how long the client waits before it reconnects. */
  retry(ms: number): boolean {
    const piece = Buffer.from(`retry: ${Math.trunc(ms)}\n\n`);
    return this.#send({ parts: [piece], length: piece.length }, false);
  }

  /** Ends the stream after everything that is queued. Idempotent. */
  end(): void {
    if (this.#closed || this.#ending) return;
    this.#ending = true;
    this.#finishIfEmpty();
  }

  disconnect(): void {
    if (!this.#closed) this.#http.destroy();
    this.gone();
  }

  keepAlive(tick: number): void {
    // Skipped if something was written in the last half round: silence then lasts at most one and a half rounds.
    if (this.#closed || this.#ending || this.#blocked || tick - this.#lastWrite < this.#wheel.turns / 2) return;
    this.#write(KEEP_ALIVE);
  }

  get #blocked(): boolean {
    return this.#queue !== null || this.#full;
  }

  /** False if the kernel took everything at once and only the `drain` event is outstanding. */
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
    this.#hold({ frame, droppable, started: false });
    if (!this.#full) this.#pump();
    return this.#queue === null;
  }

  #write(frame: SseFrame): void {
    this.#lastWrite = this.#wheel.tick;
    this.reclaim();
    const { parts, inBlocks } = this.#inOwnMemory(frame);
    this.#http.write(parts);
    if (inBlocks === true) this.#lend(parts);
  }

  #lend(blocks: readonly Buffer[]): void {
    this.#pooled ??= new PooledBlocks(this.#http, this.#wheel.memory);
    this.#pooled.add(blocks);
    this.reclaim();
    if (this.#closed) this.#leavePooled();
    else if (this.#pooled !== null) this.#wheel.lending(this, true);
  }

  /** Called by the wheel as well, because `drain` is not emitted for small amounts. */
  reclaim(): void {
    if (this.#pooled === null) return;
    this.#pooled.reclaim();
    if (!this.#pooled.none) return;
    this.#pooled = null;
    this.#wheel.lending(this, false);
  }

  #leavePooled(): void {
    this.#pooled?.leave();
    this.#pooled = null;
  }

  /** Copies a frame that may wait for the client, so that it does not keep the buffer it arrived in alive. */
  #inOwnMemory(frame: SseFrame): SseFrame {
    // TLS holds what it is given in its own way; the rest of a frame above a slice is queued as it is.
    const copies = frame.length > COPY_BYTES && frame.length < SLICE_BYTES && !('encrypted' in this.#socket);
    return copies && frame.inBlocks !== true ? this.#wheel.memory.copy(frame) : frame;
  }

  #hold(held: QueuedFrame): void {
    this.#queue ??= [];
    this.#queue.push(held);
    if (this.#full) this.#wheel.blocked(this);
    this.#count(held.frame.length);
    const most = Math.min(MAX_HELD_BYTES, this.#wheel.shareBytes);
    // Drops a little more than necessary, so that the queue is not scanned for each of many small events.
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

  /** Releases a frame that will not be written. */
  #forget({ parts, inBlocks }: SseFrame): void {
    if (inBlocks === true) this.#wheel.memory.giveBack(parts);
  }

  #count(delta: number): void {
    this.#heldBytes += delta;
    this.#wheel.held(delta);
  }

  /** The client's side is full: what Node buffers for it counts as queued. May disconnect this stream. */
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

  /** Writes the queue, slice by slice, for as long as the socket accepts it. */
  #pump(): void {
    while (this.#queue !== null && this.#queue.length > 0 && !this.#full && !this.#closed) {
      const first = this.#queue[0]!;
      if (!first.started) this.#reportDropped();
      const [slice, rest] = cutFrame(first.frame, SLICE_BYTES);
      if (rest === null) this.#queue.shift();
      else this.#queue[0] = { frame: rest, droppable: false, started: true };
      this.#count(-slice.length);
      this.#write(slice);
    }
    if (this.#queue !== null && this.#queue.length === 0) this.#queue = null;
    if (this.#full) this.#stuck();
    else this.#reportDropped();
    this.#finishIfEmpty();
  }

  #reportDropped(): void {
    if (this.#dropped === 0 || this.#closed) return;
    this.#write(commentFrame(`${this.#dropped} notifications were dropped: this client reads too slowly`));
    this.#dropped = 0;
  }

  #finishIfEmpty(): void {
    if (!this.#ending || this.#queue !== null || this.#closed) return;
    // Stays on the wheel until the response is closed: the client may not read the last bytes.
    this.#http.end();
  }

  /** Called by the socket's `drain`. */
  drained(): void {
    this.#before?.drained();
    if (this.#closed) return;
    this.#wheel.flowing(this);
    this.#unstuck();
    this.reclaim();
    const waiting = this.#queue !== null;
    if (waiting) this.#pump();
    if (waiting && this.#queue === null && !this.closed) this.onDrain?.();
  }

  /** Called when the `HttpContext` ends. */
  gone(): void {
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

/** Shared by all writers: a closure for each open stream would be a large part of its memory. */
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
