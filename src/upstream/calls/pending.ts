import type { AttemptCarrier } from '../../model/call-attempts.ts';
import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import { IntegerMap } from '../../model/integer-map.ts';
import type { Message } from '../../model/message.ts';
import type { Random } from '../../model/random.ts';
import { bodyString } from '../../protocol/body.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { isText, REQUEST_ID_MODULUS } from '../transport/in-flight.ts';
import type { ClosedReason } from '../transport/transport.ts';

/** A request that the gateway has in flight on a connection. Either `answered` or `lost` is called, exactly once. */
export interface PendingRequest {
  /** null for the gateway's own requests (handshake, lists, pings). */
  readonly exchange: Exchange | null;
  readonly method: string;
  /** The request as its sender wrote it; its id replaces the gateway's id in messages of the server. */
  readonly request: Message | null;
  token: string | null;
  /** Its id and progress token on the wire. */
  wire: string;
  /** `traceparent` of the request's span; null or absent if no span is recorded. */
  readonly trace?: string | null;
  /** Receives the server's notifications for a subscription of the gateway's own. */
  readonly onNotification?: ((message: Message) => void) | null;
  answered(message: Message): void;
  lost(error: GatewayError): void;
  /** The server reported progress of the request. */
  progressed?(): void;
  /** The server sent its client a request: the deadline is paused until `resumeDeadline`. */
  pauseDeadline?(): void;
  resumeDeadline?(): void;
}

/** A connection's in-flight requests by the gateway's ids, read-only. */
export type PendingById = Pick<IntegerMap<PendingRequest>, 'get' | 'values' | 'inOrder' | 'last'>;

/** The connection that has a request in flight, as the request sees it. */
export interface RequestCarrier extends AttemptCarrier {
  /** Why the connection ended by itself; null while it lives or if the gateway closed it. */
  readonly closedReason: ClosedReason | null;
  /** Drops the request and notifies the server; neither `answered` nor `lost` follows. False if the server has not seen it. */
  withdraw(id: number, why: 'timeout' | 'cancelled', reason: string): boolean;
}

/** A request of the gateway's own, with its answer as a promise. */
export class OwnRequest implements PendingRequest {
  readonly exchange = null;
  readonly method: string;
  readonly request = null;
  token: string | null = null;
  wire = '';
  onNotification: ((message: Message) => void) | null = null;
  readonly #answer = Promise.withResolvers<Message>();
  readonly answer = this.#answer.promise;

  constructor(method: string) {
    this.method = method;
  }

  answered(message: Message): void {
    this.#answer.resolve(message);
  }

  lost(error: GatewayError): void {
    this.#answer.reject(error);
  }
}

/** One connection's in-flight requests by the gateway's ids, and the promises that resolve when all have ended. */
export class PendingRequests {
  readonly #clock: Clock;
  readonly byId = new IntegerMap<PendingRequest>();
  readonly #idle = new Set<() => void>();
  /** How many of them are subscription streams, which stay open without keeping the server busy. */
  #listens = 0;
  /** Running tasks that send several requests. */
  #works = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Number of requests that keep the server busy, for load comparison. */
  get load(): number {
    return this.byId.size - this.#listens;
  }

  /** Number of requests, without the gateway's own subscription stream. */
  get inFlight(): number {
    let count = 0;
    for (const { exchange, method } of this.byId.values()) if (exchange !== null || method !== LISTEN) count++;
    return count;
  }

  /** Whether any of them is a client's request. */
  get forClients(): boolean {
    return this.byId.values().some(({ exchange }) => exchange !== null);
  }

  /** Oldest first. */
  get ids(): readonly number[] {
    return this.byId.numbers();
  }

  add(id: number, pending: PendingRequest): void {
    this.byId.set(id, pending);
    if (pending.method === LISTEN) this.#listens++;
  }

  /** Removes an ended request. False if it was not in flight. */
  remove(id: number): boolean {
    const pending = this.byId.get(id);
    if (pending === undefined) return false;
    this.byId.delete(id);
    if (pending.method === LISTEN) this.#listens--;
    this.#notifyIdle();
    return true;
  }

  /** Runs a task that sends several requests in sequence: it counts as busy also between them. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#works++;
    try {
      return await work();
    } finally {
      this.#works--;
      this.#notifyIdle();
    }
  }

  /** Removes all requests; `settle` then resolves the waits for idleness. */
  takeAll(): readonly PendingRequest[] {
    const all = this.byId.inOrder();
    this.byId.clear();
    this.#listens = 0;
    return all;
  }

  settle(): void {
    for (const idle of this.#idle) idle();
  }

  /** Resolves when only subscriptions are in flight, at the latest after `deadlineMs`. */
  async drained(deadlineMs: number): Promise<void> {
    if (!this.#busy()) return;
    await new Promise<void>((resolve) => {
      const idle = (): void => {
        this.#idle.delete(idle);
        disarm();
        resolve();
      };
      const disarm = this.#clock.after(deadlineMs, idle);
      this.#idle.add(idle);
    });
  }

  #notifyIdle(): void {
    if (this.#idle.size > 0 && !this.#busy()) for (const idle of this.#idle) idle();
  }

  #busy(): boolean {
    if (this.#works > 0) return true;
    for (const pending of this.byId.values()) if (pending.method !== LISTEN) return true;
    return false;
  }
}

/** The in-flight `tasks/result` for this task; the task's input requests belong to it (utilities/tasks §Input Required). */
export function waitingForTask(pending: Iterable<PendingRequest>, taskId: string): PendingRequest | null {
  for (const waiting of pending) {
    const { method, request, exchange } = waiting;
    if (method !== 'tasks/result' || request === null || exchange === null) continue;
    if (bodyString(request, 'taskId') === taskId) return waiting;
  }
  return null;
}

/** Whether the request is about a task. Input requests of a task name the task, so they are not attributed to another call. */
export function isAboutTask({ method }: PendingRequest): boolean {
  return method.startsWith('tasks/');
}

/** How long a connection may take to end after its pipe first refused a request. */
const END_FOLLOWS_MS = 500;

/**
 * Requests that a pipe did not take. Their loss is reported with the end of the connection, which follows and has the reason: a
 * retry then uses the next connection, and a failed start has the exit code.
 */
export class DeferredLosses {
  readonly #clock: Clock;
  #held: Map<number, () => void> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  has(id: number): boolean {
    return this.#held?.has(id) === true;
  }

  hold(id: number, pending: PendingRequest, error: GatewayError): void {
    const release = () => {
      this.#held?.delete(id);
      disarm();
      pending.lost(error);
    };
    const disarm = this.#clock.after(END_FOLLOWS_MS, release);
    this.#held ??= new Map();
    this.#held.set(id, release);
  }

  releaseAll(): void {
    for (const release of this.#held?.values() ?? []) release();
  }
}

/** Digits of the longest id of the gateway. */
const MAX_DIGITS = 14;

/** The gateway's short id in an id lexeme from a server; -1 for anything but a plain integer. */
export function parseRequestId(bytes: Buffer, start: number, end: number): number {
  const length = end - start;
  if (start < 0 || length < 1 || length > MAX_DIGITS || bytes[start] === 0x30) return -1;
  let id = 0;
  for (let at = start; at < end; at++) {
    const digit = bytes[at]! - 0x30;
    if (digit < 0 || digit > 9) return -1;
    id = id * 10 + digit;
  }
  return id % REQUEST_ID_MODULUS;
}

/** The id of the in-flight request that the lexeme names; 0 for none (F10: a wrong id is dropped, never guessed at). */
export function matchRequestId(pending: PendingById, bytes: Buffer, start: number, end: number): number {
  const id = parseRequestId(bytes, start, end);
  const wire = pending.get(id)?.wire;
  return wire !== undefined && isText(bytes, start, end, wire) ? id : 0;
}

const LOWEST = REQUEST_ID_MODULUS / 10;
const LOWEST_PREFIX = 10_000;
const digits = Buffer.alloc(MAX_DIGITS);

/** Writes the digits of the number before `end`. Returns where they begin. */
function writeDigits(value: number, end: number): number {
  let at = end;
  for (let rest = value; rest > 0; rest = (rest / 10) | 0) digits[--at] = 0x30 + (rest % 10);
  return at;
}

/**
 * The ids of a connection's requests, also used as progress tokens. They are random, so that no client can name another
 * client's call to the server. Internally an id has nine digits, a small integer that is cheap to handle; on the wire five more
 * digits precede it. A server that truncates numbers to 32 bits gets the nine digits only (decision 062).
 */
export class RequestIds {
  readonly #random: Random;
  readonly #inUse: { get(id: number): unknown };
  /** Whether the server truncates numbers to 32 bits, or may do so. */
  short: boolean;

  constructor(random: Random, inUse: { get(id: number): unknown }, short: boolean) {
    this.#random = random;
    this.#inUse = inUse;
    this.short = short;
  }

  next(): number {
    for (;;) {
      const id = LOWEST + this.#random.below(REQUEST_ID_MODULUS - LOWEST);
      if (this.#inUse.get(id) === undefined) return id;
    }
  }

  /**
   * The id on the wire. The digits are written one by one because V8 caches the text of each number that it converts: with
   * random numbers every text outlives its call, which doubled the garbage collection time.
   */
  wire(id: number): string {
    let start = writeDigits(id, MAX_DIGITS);
    if (!this.short) start = writeDigits(LOWEST_PREFIX + this.#random.below(9 * LOWEST_PREFIX), start);
    return digits.toString('latin1', start);
  }
}
