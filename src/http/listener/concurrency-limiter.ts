import { EventLoopMeter, type EventLoopMeterOptions, type Span } from './event-loop-meter.ts';

export interface ConcurrencyLimiterOptions extends EventLoopMeterOptions {
  /** This many at once are always admitted, however slow the machine is. 64. */
  readonly floor?: number;
  /** A turn of the event loop that is longer counts as long: requests wait for each other in it. 2.5 ms. */
  readonly turnMs?: number;
  /** Requests are refused only after turns have been long for all of this time: bursts and cold starts pass. 1 s. */
  readonly patienceMs?: number;
}

/** A request that waits for admission. Exactly one of its methods is called, once. */
export interface Waiter {
  /** When it began to wait; set by the limiter. */
  queuedAt: number;
  /** Admits it; `ticket` goes back to `leave` with the answer. */
  enter(ticket: number): void;
  refuse(): void;
}

const FLOOR = 64;
const TURN_MS = 2.5;
/** A loop that is idle for more than a tenth of the time is not overloaded. */
const SATURATED = 0.9;
/** An existing limit falls while the loop is busier than `BUSY`, and rises while it is less busy than `AT_EASE`. */
const BUSY = 0.8;
const AT_EASE = 0.6;
const PATIENCE_MS = 1_000;
/** Requests that wait for admission: of each body at most 64 KiB were read, by the fast path or the kernel. */
const MAX_WAITING = 64;
/** A request waits no longer than this for admission or a refusal. */
const WAIT_MS = 2;
/** Length of an epoch. A call that is older than two epochs only waits for its server and costs nothing. */
const EPOCH_MS = 500;
/** The limit falls by a factor and rises by a number. */
const FALL = 0.8;
const RISE = 8;
/** The limit is removed when no request has had to wait for it for this long. */
const CALM_MS = 2_000;
const NEVER = -1;

/**
 * Limits the calls in progress while the gateway is overloaded (G20); without a limit otherwise. When the event loop is
 * never idle and its turns stay long, the limit is set to the most calls in progress meanwhile; it falls while the loop is
 * busy and rises when it is not. Calls above it wait for a moment and are then refused. Calls older than a second do not
 * count: they wait for slow servers.
 */
export class ConcurrencyLimiter {
  readonly #floor: number;
  readonly #turnMs: number;
  readonly #patienceMs: number;
  readonly #now: () => number;
  readonly #meter: EventLoopMeter;
  #limit = Number.POSITIVE_INFINITY;
  /** Calls in progress that began in this epoch or the one before. */
  #active = 0;
  #ofBefore = 0;
  #epoch = 0;
  #epochSince = 0;
  #longSince = NEVER;
  #calmSince = 0;
  #most = 0;
  #waiting: Waiter[] = [];
  #timer: NodeJS.Timeout | null = null;

  constructor(options: ConcurrencyLimiterOptions = {}) {
    this.#floor = options.floor ?? FLOOR;
    this.#turnMs = options.turnMs ?? TURN_MS;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
    this.#now = options.now ?? (() => performance.now());
    this.#meter = new EventLoopMeter(
      () => this.#serve(),
      (span) => this.#adapt(span),
      options,
    );
    this.#epochSince = this.#now();
  }

  /** How many calls may be in progress; Infinity without overload. */
  get limit(): number {
    return this.#limit;
  }

  /** Calls in progress, without those that have been for long. */
  get active(): number {
    return this.#active;
  }

  /** A ticket for one more call, to be returned with its answer; -1 if the call has to `wait`. */
  enter(): number {
    if (!this.#meter.measuring) this.#begin();
    if (this.#active >= this.#limit || this.#waiting.length > 0) return NEVER;
    this.#active++;
    return this.#epoch;
  }

  /** Queues a request for admission or refusal. */
  wait(waiter: Waiter): void {
    this.#calmSince = NEVER;
    if (this.#waiting.length >= MAX_WAITING) {
      waiter.refuse();
      return;
    }
    waiter.queuedAt = this.#now();
    this.#waiting.push(waiter);
    this.#timer ??= setTimeout(() => this.#timeUp(), WAIT_MS);
  }

  /** The call has been answered, or has become a stream that may last. */
  leave(ticket: number): void {
    if (ticket === this.#epoch) this.#active--;
    else if (ticket === this.#epoch - 1 && this.#ofBefore > 0) {
      this.#active--;
      this.#ofBefore--;
    } else return;
    if (this.#waiting.length > 0) this.#begin();
  }

  #begin(): void {
    const now = this.#meter.begin();
    if (now - this.#epochSince >= EPOCH_MS) this.#age(now);
  }

  /** At the end of a turn: admits requests as far as the limit allows, and refuses those that have waited too long. */
  #serve(): void {
    if (this.#waiting.length === 0) return;
    let served = 0;
    const now = this.#now();
    for (const waiter of this.#waiting) {
      if (this.#active < this.#limit) {
        this.#active++;
        waiter.enter(this.#epoch);
      } else if (now - waiter.queuedAt >= WAIT_MS) waiter.refuse();
      else break;
      served++;
    }
    if (served === this.#waiting.length) this.#waiting = [];
    else this.#waiting.splice(0, served);
  }

  #timeUp(): void {
    this.#timer = null;
    this.#serve();
    if (this.#waiting.length > 0) this.#timer = setTimeout(() => this.#timeUp(), WAIT_MS);
  }

  #adapt({ turnMs, utilization, now }: Span): void {
    const active = this.#active;
    const long = turnMs > this.#turnMs && utilization >= SATURATED;
    if (!long) this.#longSince = NEVER;
    else if (this.#longSince === NEVER) this.#longSince = now;
    this.#most = Math.max(active, this.#longSince === now ? 0 : this.#most);
    if (this.#limit === Number.POSITIVE_INFINITY) {
      if (!long || now - this.#longSince < this.#patienceMs) return;
      this.#limit = Math.max(this.#floor, this.#most);
      this.#calmSince = NEVER;
      return;
    }
    if (utilization >= BUSY) this.#limit = Math.max(this.#floor, Math.floor(this.#limit * FALL));
    else if (utilization < AT_EASE) this.#limit += RISE;
    if (this.#calmSince === NEVER) this.#calmSince = now;
    else if (now - this.#calmSince >= CALM_MS) this.#limit = Number.POSITIVE_INFINITY;
  }

  /** Drops the calls of the previous epoch; those of this epoch become those of the previous one. */
  #age(now: number): void {
    const ofThis = this.#active - this.#ofBefore;
    const idle = now - this.#epochSince >= 2 * EPOCH_MS;
    this.#epochSince = now;
    this.#epoch++;
    this.#active = ofThis;
    this.#ofBefore = ofThis;
    if (!idle) return;
    // After such a pause all calls of both epochs are old.
    this.#epoch++;
    this.#active = 0;
    this.#ofBefore = 0;
  }
}
