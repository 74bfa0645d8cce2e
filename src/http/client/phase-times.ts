import { isIP, type Socket } from 'node:net';
import type { Clock } from '../../model/clock.ts';
import { PHASES, type Phase, type PhaseFigures, type RequestPhases } from '../../model/server-state.ts';

/** Number of last times per phase that the figures cover. */
const WINDOW = 128;

const WORDS: Readonly<Record<Phase, string>> = {
  dns: 'to look its name up (DNS)',
  tcp: 'to connect (TCP)',
  tls: 'to agree on a secure connection (TLS)',
  firstByte: 'to the first byte',
};

/** The summary says that an answer is slow if its phases usually take longer than this in total. */
const SLOW_MS = 500;

/** A phase that was given up earlier says nothing about the server. */
const GIVEN_UP_MS = 1_000;

/** Where the time of requests to one server goes: the last times of each phase. Figures are computed on demand. */
export class PhaseTimes {
  readonly #rings: Readonly<Record<Phase, Ring>> = {
    dns: new Ring(),
    tcp: new Ring(),
    tls: new Ring(),
    firstByte: new Ring(),
  };
  #reached = false;

  /** `givenUp`: the phase was given up after this time. */
  add(phase: Phase, ms: number, givenUp = false): void {
    if (givenUp && ms < GIVEN_UP_MS) return;
    this.#rings[phase].add(ms);
    if (!givenUp && (phase === 'tcp' || phase === 'firstByte')) this.#reached = true;
  }

  /** Whether the peer has accepted a connection or answered. */
  get reached(): boolean {
    return this.#reached;
  }

  /** Null before the first measurement. */
  figures(): RequestPhases | null {
    const found = Object.fromEntries(PHASES.map((phase) => [phase, this.#rings[phase].figures()])) as Record<
      Phase,
      PhaseFigures | null
    >;
    const usual = (phase: Phase): number => found[phase]?.p50Ms ?? 0;
    const known = PHASES.filter((phase) => found[phase] !== null);
    const [first] = known;
    if (first === undefined) return null;
    const slowest = known.reduce((worst, phase) => (usual(phase) > usual(worst) ? phase : worst), first);
    const total = PHASES.reduce((sum, phase) => sum + usual(phase), 0);
    const part = `${WORDS[slowest]}: ${spoken(usual(slowest))} of ${spoken(total)}`;
    return { ...found, slowest, summary: total < SLOW_MS ? `quick; most of it ${part}` : `slow ${part}` };
  }
}

class Ring {
  #values: Float64Array | null = null;
  #count = 0;

  add(ms: number): void {
    this.#values ??= new Float64Array(WINDOW);
    this.#values[this.#count++ % WINDOW] = ms;
  }

  figures(): PhaseFigures | null {
    const values = this.#values;
    if (values === null) return null;
    const held = Math.min(this.#count, WINDOW);
    const sorted = values.slice(0, held).sort();
    const at = (percent: number): number => rounded(sorted[Math.ceil((percent / 100) * held) - 1]!);
    return { lastMs: rounded(values[(this.#count - 1) % WINDOW]!), p50Ms: at(50), p95Ms: at(95), count: this.#count };
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}

function spoken(ms: number): string {
  return ms >= 1_000 ? `${(ms / 1_000).toFixed(1)} s` : `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/**
 * Measures how long a new connection spends in each phase; an attempt that is given up counts in its current phase. Call
 * the returned function to give the attempt up before the socket does.
 */
export function timeConnect(
  socket: Socket,
  host: string,
  secure: boolean,
  phases: PhaseTimes,
  clock: Clock,
): () => void {
  let phase: Phase | null = isIP(host) === 0 ? 'dns' : 'tcp';
  let since = clock.now();
  const next = (following: Phase | null, givenUp = false): void => {
    const now = clock.now();
    if (phase !== null) phases.add(phase, now - since, givenUp);
    phase = following;
    since = now;
  };
  socket.once('lookup', () => next('tcp'));
  socket.once('connect', () => next(secure ? 'tls' : null));
  if (secure) socket.once('secureConnect', () => next(null));
  const giveUp = (): void => next(null, true);
  socket.once('close', giveUp);
  return giveUp;
}
