import { type ClusterFigures, judgedMs, type Timed } from '../chaos/cluster-figures.ts';
import { type Figure, figure, type Outcome, percentile } from './proof.ts';

/** G5: a client that called a node that died gets its answer, and then its next result, within these times. */
const REPORTED_WITHIN_MS = 2_000;
const SERVED_WITHIN_MS = 3_000;
/** The share of deaths during which the machine may have let a node stand still; one death is always allowed. */
const STOOD_SHARE = 0.1;

export const NO_DEATHS: ClusterFigures = { deaths: 0, stood: 0, inFlight: [], next: [], reborn: [], spawn: [] };

export function bothDeaths(one: ClusterFigures, other: ClusterFigures): ClusterFigures {
  return {
    deaths: one.deaths + other.deaths,
    stood: one.stood + other.stood,
    inFlight: [...one.inFlight, ...other.inFlight],
    next: [...one.next, ...other.next],
    reborn: [...one.reborn, ...other.reborn],
    spawn: [...one.spawn, ...other.spawn],
  };
}

/** Whether the figures are worth a look: a client got its answer late, or the machine let a node stand still. */
export function remarkable({ stood, inFlight }: ClusterFigures): boolean {
  return stood > 0 || inFlight.some(({ ms }) => ms > REPORTED_WITHIN_MS);
}

/** Every death counts; each time is judged without the time for which the answering node stood still, and shown with it. */
export function judgeDeaths({ deaths, stood, inFlight, next, reborn, spawn }: ClusterFigures): Outcome {
  const both = (name: string, times: readonly Timed[], percent: number, atMost: number): Figure[] => [
    figure(name, percentile(times.map(judgedMs), percent), 'ms', atMost),
    figure(`${name}, with the time for which the node that answered stood still`, rawOf(times, percent), 'ms'),
  ];
  const measured = { 'call in flight': inFlight, 'next result': next, 'new process of a session': reborn };
  const broken = Object.entries(measured).flatMap(([what, times]) =>
    times.length > 0 ? [] : [`no ${what} was timed at the death of a node`],
  );
  if (stood > 0 && stood === deaths) broken.push('beside every death the machine let a node stand still');
  return {
    figures: [
      figure('nodes that died while nothing else struck', deaths, ''),
      figure(
        'of those, beside which the machine let a node that answered stand still',
        stood,
        '',
        Math.max(1, Math.floor(deaths * STOOD_SHARE)),
      ),
      figure('calls in flight at a dead node', inFlight.length, ''),
      ...both('last answer to a call in flight at a dead node', inFlight, 100, REPORTED_WITHIN_MS),
      ...both('next result of a session that needs no new process, p99', next, 99, SERVED_WITHIN_MS),
      figure('sessions that need a new process', reborn.length, ''),
      ...both('new process of a session begun, p99', reborn, 99, SERVED_WITHIN_MS),
      figure('start of that process and the call, p99', percentile(spawn, 99), 'ms'),
    ],
    broken,
  };
}

function rawOf(times: readonly Timed[], percent: number): number {
  return percentile(
    times.map(({ ms }) => ms),
    percent,
  );
}
