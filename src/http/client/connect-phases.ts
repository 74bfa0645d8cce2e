import { isIP, type Socket } from 'node:net';
import type { Clock } from '../../model/clock.ts';
import type { Phase } from '../../model/server-state.ts';
import type { PhaseTimes } from './phase-times.ts';

/** What was given up after less than this says nothing of the server. */
export const GIVEN_UP_MS = 1_000;

/**
 * Measures how long a new connection spends in each phase; one that is given up counts in its phase with the time it
 * had. The caller may give it up before the socket does, by the function that is returned.
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
  const next = (following: Phase | null): void => {
    const now = clock.now();
    if (phase !== null) phases.add(phase, now - since);
    phase = following;
    since = now;
  };
  socket.once('lookup', () => next('tcp'));
  socket.once('connect', () => next(secure ? 'tls' : null));
  if (secure) socket.once('secureConnect', () => next(null));
  const givenUp = (): void => {
    if (phase !== null && clock.now() - since >= GIVEN_UP_MS) next(null);
    phase = null;
  };
  socket.once('close', givenUp);
  return givenUp;
}
