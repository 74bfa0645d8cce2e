import { ByNumber } from '../../model/by-number.ts';
import type { AttemptCarrier } from '../../model/call-attempts.ts';
import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { Random } from '../../model/random.ts';
import { bodyString } from '../../protocol/body.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { isText, OWN_DIGITS } from '../transport/in-flight.ts';
import type { ClosedReason } from '../transport/transport.ts';

/** One request of ours that a connection has in flight. Exactly one of `answered` and `lost` is called, once. */
export interface PendingRequest {
  /** null for requests of the gateway's own (handshake, lists, pings). */
  readonly exchange: Exchange | null;
  readonly method: string;
  /** The request as its sender wrote it; its id is what the server's mentions of ours are turned back into. */
  readonly request: Message | null;
  token: string | null;
  /** Its id, and its progress token, as the server got it. */
  wire: string;
  /** `traceparent` of its span; null or absent where none is recorded. */
  readonly trace?: string | null;
  /** Hears of what the server says on a subscription of the gateway's own. */
  readonly onNotification?: ((message: Message) => void) | null;
  answered(message: Message): void;
  lost(error: GatewayError): void;
  /** The server reported progress of it. */
  progressed?(): void;
  /** The server asks its client something: until it `goesOn`, time is not the server's. */
  waits?(): void;
  goesOn?(): void;
}

/** The requests that a connection has in flight, by our ids, read-only. */
export type PendingById = Pick<ByNumber<PendingRequest>, 'get' | 'values' | 'inOrder' | 'last'>;

/** Who has a pending request in flight, as the request sees it. */
export interface RequestCarrier extends AttemptCarrier {
  /** Why it ended by itself; null while it lives or was closed by us. */
  readonly ended: ClosedReason | null;
  /** Forgets the request and notifies the server. Nothing follows. False when the server certainly knows nothing of it. */
  withdraw(id: number, why: 'timeout' | 'cancelled', reason: string): boolean;
}

/** A request of the gateway's own, as a promise. */
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

/** The requests that one connection has in flight, by our ids, and the waits for all of them to end. */
export class PendingRequests {
  readonly #clock: Clock;
  readonly byId = new ByNumber<PendingRequest>();
  readonly #idle = new Set<() => void>();
  /** Of these: streams that stay open and keep the server busy with nothing. */
  #listens = 0;
  /** Work of several requests that is under way. */
  #works = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How much the server has to do, for comparison. */
  get load(): number {
    return this.byId.size - this.#listens;
  }

  /** But for our own stream that listens for changes. */
  get inFlight(): number {
    let count = 0;
    for (const { exchange, method } of this.byId.values()) if (exchange !== null || method !== LISTEN) count++;
    return count;
  }

  /** Whether some are of clients, not of the gateway's own. */
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

  /** It is over, one way or the other. False when it was not in flight. */
  remove(id: number): boolean {
    const pending = this.byId.get(id);
    if (pending === undefined) return false;
    this.byId.delete(id);
    if (pending.method === LISTEN) this.#listens--;
    this.#tellIdle();
    return true;
  }

  /** Work of several requests, one after the other: between two of them nothing is in flight, and more is to come. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#works++;
    try {
      return await work();
    } finally {
      this.#works--;
      this.#tellIdle();
    }
  }

  /** All are over; `settle` resolves the waits for that. */
  takeAll(): readonly PendingRequest[] {
    const all = this.byId.inOrder();
    this.byId.clear();
    this.#listens = 0;
    return all;
  }

  settle(): void {
    for (const idle of this.#idle) idle();
  }

  /** Resolves when nothing is in flight but open subscriptions, at the latest after `deadlineMs`. */
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

  #tellIdle(): void {
    if (this.#idle.size > 0 && !this.#busy()) for (const idle of this.#idle) idle();
  }

  #busy(): boolean {
    if (this.#works > 0) return true;
    for (const pending of this.byId.values()) if (pending.method !== LISTEN) return true;
    return false;
  }
}

/** The `tasks/result` in flight for this task: questions of the task belong there (utilities/tasks §Input Required). */
export function waitingForTask(pending: Iterable<PendingRequest>, taskId: string): PendingRequest | null {
  for (const waiting of pending) {
    const { method, request, exchange } = waiting;
    if (method !== 'tasks/result' || request === null || exchange === null) continue;
    if (bodyString(request, 'taskId') === taskId) return waiting;
  }
  return null;
}

/** What is asked on it always names the task, so that it is never taken for another call's. */
export function isAboutTask({ method }: PendingRequest): boolean {
  return method.startsWith('tasks/');
}

/** How long the end of a pipe may be behind the first request that it did not take. */
const END_FOLLOWS_MS = 500;

/**
 * Requests that a pipe did not take. They are reported with its end, which follows and tells more: a retry then meets
 * the next connection, and a failed start has the exit code.
 */
export class DeferredLosses {
  readonly #clock: Clock;
  #held: Map<number, () => void> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the request with this id is one of them. */
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

/** Longest id of ours that can come back. */
const MAX_DIGITS = 14;

/** The short id in the lexeme of an id that a server sent back; -1 for anything but a plain integer. */
export function ownId(bytes: Buffer, start: number, end: number): number {
  const length = end - start;
  if (start < 0 || length < 1 || length > MAX_DIGITS || bytes[start] === 0x30) return -1;
  let id = 0;
  for (let at = start; at < end; at++) {
    const digit = bytes[at]! - 0x30;
    if (digit < 0 || digit > 9) return -1;
    id = id * 10 + digit;
  }
  return id % OWN_DIGITS;
}

/** The request in flight that the lexeme names; 0 for none (F10: a wrong id is dropped, never guessed at). */
export function namedRequest(pending: PendingById, bytes: Buffer, start: number, end: number): number {
  const id = ownId(bytes, start, end);
  const wire = pending.get(id)?.wire;
  return wire !== undefined && isText(bytes, start, end, wire) ? id : 0;
}

const LOWEST = OWN_DIGITS / 10;
const LOWEST_PREFIX = 10_000;
const digits = Buffer.alloc(MAX_DIGITS);

/** The number's digits, so that the last one is before `end`. Returns where they begin. */
function writeDigits(value: number, end: number): number {
  let at = end;
  for (let rest = value; rest > 0; rest = (rest / 10) | 0) digits[--at] = 0x30 + (rest % 10);
  return at;
}

/**
 * The ids of a connection's requests, which are its progress tokens too. They are random, so that no client can name the
 * call of another one to the server. Here a request is known by nine digits, which is a small integer and cheap; on the wire
 * five more are before them. A server that cuts numbers to 32 bits gets the nine (decision 062).
 */
export class RequestIds {
  readonly #random: Random;
  readonly #inUse: { get(id: number): unknown };
  /** The server cuts numbers to 32 bits, or may do so. */
  short: boolean;

  constructor(random: Random, inUse: { get(id: number): unknown }, short: boolean) {
    this.#random = random;
    this.#inUse = inUse;
    this.short = short;
  }

  next(): number {
    for (;;) {
      const id = LOWEST + this.#random.below(OWN_DIGITS - LOWEST);
      if (this.#inUse.get(id) === undefined) return id;
    }
  }

  /**
   * What the server gets for it. The digits are written one by one because V8 keeps the text of each number that it
   * converts in a cache: with random numbers every text outlives the call, which doubled the time of its collections.
   */
  wire(id: number): string {
    let start = writeDigits(id, MAX_DIGITS);
    if (!this.short) start = writeDigits(LOWEST_PREFIX + this.#random.below(9 * LOWEST_PREFIX), start);
    return digits.toString('latin1', start);
  }
}
