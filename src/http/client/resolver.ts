import { AsyncLocalStorage } from 'node:async_hooks';
import { type LookupAddress, lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { type Clock, systemClock } from '../../model/clock.ts';
import { isPublicAddress } from '../../model/host-address.ts';

type LookupOptions = Parameters<LookupFunction>[1];
type LookupCallback = Parameters<LookupFunction>[2];
type Answer = (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void;
/** What `dns.lookup` calls back with: without addresses on an error. */
type SystemAnswer = (error: NodeJS.ErrnoException | null, addresses?: LookupAddress[]) => void;

export interface ResolverOptions {
  readonly clock?: Clock;
  /** Resolves a name; by default like the system, so that hosts files and search domains work. */
  readonly lookup?: (name: string, answer: SystemAnswer) => void;
  /** How long one look-up may take. */
  readonly timeoutMs?: number;
}

interface ResolvedName {
  readonly addresses: LookupAddress[];
  readonly at: number;
}

/** One look-up of one name; concurrent requests for the name wait for it. */
interface Pending {
  readonly waiting: Answer[];
  stopTimer: () => void;
  settled: boolean;
}

const MAX_RUNNING = 2;
const MAX_KNOWN = 1024;
/** How long an answer is used without another look-up, and how much longer if another look-up fails. */
const FRESH_MS = 5_000;
const STALE_MS = 60_000;

/**
 * Resolves names to addresses. A look-up blocks a thread of the pool that file operations also use: at most two run at a
 * time, and one per name. A name that stops resolving keeps its last addresses for a minute.
 */
export class Resolver {
  readonly #clock: Clock;
  readonly #lookup: (name: string, answer: SystemAnswer) => void;
  readonly #timeoutMs: number;
  readonly #known = new Map<string, ResolvedName>();
  readonly #pending = new Map<string, Pending>();
  readonly #queue: string[] = [];
  #running = 0;

  constructor(options: ResolverOptions = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#lookup = options.lookup ?? ((name, answer) => systemLookup(name, { all: true }, answer));
    this.#timeoutMs = options.timeoutMs ?? 4_000;
  }

  /** In the form that `net.connect` and undici take as `lookup`. */
  readonly lookup: LookupFunction = (name, options, callback) => this.#lookUp(name, options, callback, false);

  /**
   * As `lookup`, for servers that may have public addresses only: refuses a name with any other address, and the connection
   * uses the addresses that were checked.
   */
  readonly publicLookup: LookupFunction = (name, options, callback) => this.#lookUp(name, options, callback, true);

  #lookUp(name: string, options: LookupOptions, callback: LookupCallback, publicOnly: boolean): void {
    this.resolve(name, (error, addresses) => {
      const family = options.family === 4 || options.family === 6 ? options.family : 0;
      const fitting = family === 0 ? addresses : addresses.filter((address) => address.family === family);
      const first = fitting[0];
      const inside = publicOnly && addresses.some(({ address }) => !isPublicAddress(address));
      const failure = error ?? (first === undefined ? notFound(name) : inside ? notPublic(name) : null);
      if (failure !== null) callback(failure, options.all === true ? [] : '', 0);
      else if (options.all === true) callback(null, fitting);
      else callback(null, first!.address, first!.family);
    });
  }

  /**
   * Calls back exactly once, asynchronously, and in the async context of the caller: requests of several servers may wait
   * for one look-up.
   */
  resolve(name: string, asker: Answer): void {
    const asAsker = AsyncLocalStorage.snapshot();
    const answer: Answer = (error, addresses) => asAsker(queueMicrotask, () => asker(error, addresses));
    const known = this.#known.get(name);
    if (known !== undefined && this.#clock.now() - known.at < FRESH_MS) {
      answer(null, known.addresses);
      return;
    }
    const pending = this.#pending.get(name);
    if (pending !== undefined) {
      pending.waiting.push(answer);
      return;
    }
    const started: Pending = { waiting: [answer], stopTimer: () => {}, settled: false };
    this.#pending.set(name, started);
    started.stopTimer = this.#clock.after(this.#timeoutMs, () => this.#settle(name, started, timedOut(name), []));
    this.#queue.push(name);
    this.#next();
  }

  #next(): void {
    while (this.#running < MAX_RUNNING) {
      const name = this.#queue.shift();
      if (name === undefined) return;
      const pending = this.#pending.get(name);
      if (pending === undefined || pending.settled) continue;
      this.#running += 1;
      // A look-up that has timed out still blocks its thread, so it counts until it returns.
      const answered: SystemAnswer = (error, addresses = []) => {
        this.#running -= 1;
        if (error === null && addresses.length > 0) this.#remember(name, addresses);
        this.#settle(name, pending, error, addresses);
        this.#next();
      };
      try {
        this.#lookup(name, answered);
      } catch (error) {
        // Node refuses some names by throwing, for example with a zero byte.
        queueMicrotask(() => answered(error as NodeJS.ErrnoException));
      }
    }
  }

  #settle(name: string, pending: Pending, error: NodeJS.ErrnoException | null, addresses: LookupAddress[]): void {
    if (pending.settled) return;
    pending.settled = true;
    pending.stopTimer();
    this.#pending.delete(name);
    const known = this.#known.get(name);
    const usable = known !== undefined && this.#clock.now() - known.at < FRESH_MS + STALE_MS;
    for (const answer of pending.waiting) {
      if (error !== null && usable) answer(null, known.addresses);
      else answer(error, addresses);
    }
  }

  #remember(name: string, addresses: LookupAddress[]): void {
    this.#known.delete(name);
    this.#known.set(name, { addresses, at: this.#clock.now() });
    if (this.#known.size > MAX_KNOWN) this.#known.delete(this.#known.keys().next().value!);
  }
}

function notFound(name: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`no address for ${name}`), { code: 'ENOTFOUND', syscall: 'getaddrinfo' });
}

function notPublic(name: string): NodeJS.ErrnoException {
  const message = `${name} is at an address of this machine or its network, which a server that was added without the exec token may not be`;
  return Object.assign(new Error(message), { code: 'EACCES', syscall: 'getaddrinfo' });
}

function timedOut(name: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`looking up ${name} took too long`), { code: 'EAI_AGAIN', syscall: 'getaddrinfo' });
}
