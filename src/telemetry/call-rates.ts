import type { CallFigures, CallSecond, ClientRate, ServerRate } from '../model/call-rates.ts';
import type { Clock } from '../model/clock.ts';
import type { CallLog } from './call-log.ts';

const SECOND_MS = 1_000;
const KEPT_SECONDS = 300;
/** Clients with the most calls. */
const MAX_CLIENTS = 32;

/** A second with the figures of each server and client. */
export interface DetailedSecond extends CallSecond {
  readonly servers: readonly Omit<ServerRate, 'inFlight'>[];
  readonly clients: readonly ClientRate[];
}

type Follower = (second: DetailedSecond) => void;

/**
 * The calls of clients per second, counted once for all followers from the tables of the call log. Keeps the last five
 * minutes. If a second has more calls than the log keeps, errors and percentiles cover only the last ones.
 */
export class CallRates {
  readonly #calls: CallLog;
  readonly #clock: Clock;
  readonly #followers = new Set<Follower>();
  readonly #seconds: CallSecond[] = [];
  #counted: number;
  #disarm: () => void = () => {};

  constructor(calls: CallLog, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
    this.#counted = calls.end;
  }

  start(): void {
    // At whole seconds, so that those of several nodes match.
    const next = (this.#second + 1) * SECOND_MS;
    this.#disarm = this.#clock.after(next - this.#clock.wall(), () => {
      this.start();
      this.#count();
    });
  }

  close(): void {
    this.#disarm();
  }

  /** Oldest first. Seconds in which the process was blocked are missing. */
  get seconds(): readonly CallSecond[] {
    return this.#seconds;
  }

  /** Calls `follower` at the end of each second; the returned function ends that. */
  follow(follower: Follower): () => void {
    this.#followers.add(follower);
    return () => void this.#followers.delete(follower);
  }

  /** The nearest whole second, because timers run a little early or late. */
  get #second(): number {
    return Math.round(this.#clock.wall() / SECOND_MS);
  }

  #count(): void {
    const all = new Tally();
    const servers = new Map<string, Tally>();
    const clients = new Map<string | null, ClientTally>();
    const isFollowed = this.#followers.size > 0;
    const from = this.#counted;
    this.#counted = this.#calls.visit(from, (server, info, revision, ms, failed) => {
      all.add(ms, failed);
      if (!isFollowed) return;
      if (server !== null) tallyOf(servers, server, Tally).add(ms, failed);
      const client = tallyOf(clients, info, ClientTally);
      client.revision = revision;
      client.add(ms, failed);
    });
    const time = new Date(this.#second * SECOND_MS).toISOString();
    const counted = { time, ...all.figures(), calls: this.#counted - from };
    if (this.#seconds.push(counted) > KEPT_SECONDS) this.#seconds.shift();
    if (!isFollowed) return;
    const detailed = {
      ...counted,
      servers: [...servers].map(([server, tally]) => ({ server, ...tally.figures() })),
      clients: this.#named(clients),
    };
    for (const follower of this.#followers) follower(detailed);
  }

  /** Merges clients of the same name, which may send different info. */
  #named(clients: ReadonlyMap<string | null, ClientTally>): ClientRate[] {
    const byName = new Map<string | null, ClientTally>();
    const most = [...clients].sort(([, a], [, b]) => b.times.length - a.times.length).slice(0, MAX_CLIENTS);
    for (const [info, tally] of most) tallyOf(byName, this.#calls.clientName(info), ClientTally).join(tally);
    return [...byName].map(([client, tally]) => ({ client, revision: tally.revision, ...tally.figures() }));
  }
}

class Tally {
  readonly times: number[] = [];
  errors = 0;

  add(ms: number, failed: boolean): void {
    this.times.push(ms);
    if (failed) this.errors++;
  }

  figures(): CallFigures {
    const times = Float64Array.from(this.times).sort();
    const at = (share: number): number | null =>
      times.length === 0 ? null : Math.round(times[Math.floor(share * times.length)]! * 100) / 100;
    return { calls: times.length, errors: this.errors, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
  }
}

class ClientTally extends Tally {
  revision = '';

  join({ times, errors, revision }: ClientTally): void {
    for (const ms of times) this.times.push(ms);
    this.errors += errors;
    this.revision = revision;
  }
}

function tallyOf<K, T extends Tally>(tallies: Map<K, T>, key: K, Made: new () => T): T {
  let tally = tallies.get(key);
  if (tally === undefined) {
    tally = new Made();
    tallies.set(key, tally);
  }
  return tally;
}
