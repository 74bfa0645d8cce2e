import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Attempt, Ending } from '../faults/ledger/history.ts';
import type { LedgerEntry } from '../faults/ledger/ledger-entry.ts';
import { type ClusterFigures, clusterFigures, judgedMs, type Timed } from './cluster-figures.ts';
import type { Struck } from './nemesis.ts';
import type { Span } from './standstills.ts';

const AT_THE_DEAD = '{"code":"UNKNOWN","outcome":"UNKNOWN","node":"n1"}';
const death: Struck = { kind: 'kill', node: 'n1', from: 10_000, to: 14_000 };

function attempt(
  server: string,
  via: string,
  startedAt: number,
  endedAt: number,
  ending: Ending,
  reason = '',
): Attempt {
  const rest = { tool: 'unsafe', rpcId: '1', answeredId: '1', answeredCall: null, abandoned: false, reason };
  return { client: 'c1', call: `${startedAt}`, server, via, startedAt, endedAt, ending, ...rest };
}

/** `births`: when the process of a call began; the clock of the attempts began at 1 000 000. */
function figures(
  attempts: Attempt[],
  struck: Struck[],
  births: Record<string, number> = {},
  stood: Record<string, Span[]> = {},
): ClusterFigures {
  const ledger = Object.entries(births).map(
    ([call, at]): LedgerEntry => ({ event: 'executed', call, tool: 'unsafe', pid: 1, bornAt: 1_000_000 + at }),
  );
  return clusterFigures(attempts, struck, ledger, 1_000_000, new Map(Object.entries(stood)));
}

const raw = (times: readonly Timed[]): number[] => times.map(({ ms }) => ms);
const judged = (times: readonly Timed[]): number[] => times.map(judgedMs);

test('calls in flight at the death of a node are timed from it; those of the dead node’s own clients are not', () => {
  const attempts = [
    attempt('own', 'n2', 9_900, 11_600, 'UNKNOWN', AT_THE_DEAD),
    attempt('own', 'n2', 9_900, 10_700, 'RESULT'),
    attempt('own', 'n1', 9_900, 10_001, 'UNKNOWN', AT_THE_DEAD),
    attempt('own', 'n2', 9_000, 9_500, 'UNKNOWN', AT_THE_DEAD),
  ];
  assert.deepEqual(raw(figures(attempts, [death]).inFlight), [1_600]);
});

test('a failure at another node or at none does not count for the death; a TIMEOUT at the dead node does', () => {
  const reported = (code: string, node: string) => `{"code":"${code}","outcome":"UNKNOWN","node":"${node}"}`;
  const attempts = [
    attempt('single', 'n2', 9_900, 15_900, 'UNKNOWN', '{"code":"TIMEOUT","outcome":"UNKNOWN"}'),
    attempt('single', 'n2', 9_901, 12_500, 'UNKNOWN', reported('UNKNOWN', 'n3')),
    attempt('single', 'n2', 9_902, 16_500, 'UNKNOWN', reported('TIMEOUT', 'n1')),
  ];
  assert.deepEqual(raw(figures(attempts, [death]).inFlight), [6_500]);
});

test('the next result of a session is timed from the first call after the death, up to the start of a process if it needs one', () => {
  const attempts = [
    attempt('own', 'n2', 10_500, 10_600, 'NOT_SENT'),
    attempt('own', 'n3', 10_700, 13_000, 'RESULT'),
    attempt('own', 'n3', 13_100, 13_900, 'RESULT'),
    attempt('single', 'n3', 10_100, 10_140, 'RESULT'),
    attempt('old', 'n3', 10_200, 10_230, 'RESULT'),
    attempt('modern', 'n3', 13_500, 13_530, 'RESULT'),
  ];
  const { next, reborn, spawn } = figures(attempts, [death], { '10700': 12_800, '10100': 3_000 });
  assert.deepEqual([raw(next), raw(reborn), spawn], [[40, 30], [2_300], [200]]);
});

test('a client without service counts for as long as it tried, if that was too long', () => {
  const attempts = [
    attempt('own', 'n2', 10_500, 10_600, 'NOT_SENT'),
    attempt('own', 'n2', 30_000, 30_600, 'RESULT'),
    attempt('single', 'n3', 10_500, 10_600, 'NOT_SENT'),
    attempt('single', 'n3', 10_700, 15_700, 'NOT_SENT'),
  ];
  const { next, reborn } = figures(attempts, [death], { '30000': 29_900 });
  assert.deepEqual([raw(next), raw(reborn)], [[5_200], []]);
});

test('a death during another fault is not counted', () => {
  const attempts = [attempt('own', 'n2', 9_900, 11_600, 'UNKNOWN', AT_THE_DEAD)];
  const outage: Struck = { kind: 'nats_kill', node: null, from: 12_000, to: 15_000 };
  assert.equal(figures(attempts, [death, outage]).deaths, 0);
  assert.deepEqual(figures(attempts, [death, outage]).inFlight, []);
  assert.deepEqual(raw(figures(attempts, [death, { ...outage, from: 13_500 }]).inFlight), [1_600]);
  assert.deepEqual(figures(attempts, [{ ...death, kind: 'stop' }]).inFlight, []);
});

test('a death while a node was frozen counts; calls that this node answered count without the time of the freeze', () => {
  const attempts = [
    attempt('own', 'n2', 9_900, 13_100, 'UNKNOWN', AT_THE_DEAD),
    attempt('own', 'n3', 9_900, 12_900, 'UNKNOWN', AT_THE_DEAD),
    attempt('single', 'n2', 10_500, 12_540, 'RESULT'),
  ];
  // The freeze began before the death, and went on for 2.5 s after it.
  const still = { n2: [{ from: 9_500, to: 12_500 }] };
  const { deaths, stood, inFlight, next } = figures(attempts, [death], {}, still);
  assert.deepEqual([deaths, stood], [1, 1]);
  assert.deepEqual(
    [raw(inFlight), judged(inFlight)],
    [
      [3_100, 2_900],
      [600, 2_900],
    ],
  );
  assert.deepEqual([raw(next), judged(next)], [[2_040], [40]]);
});

test('a freeze excuses no delay at another node, or after the answer', () => {
  const attempts = [attempt('own', 'n2', 9_900, 13_000, 'UNKNOWN', AT_THE_DEAD)];
  const still = { n1: [{ from: 10_000, to: 13_000 }], n3: [{ from: 10_000, to: 13_000 }] };
  const { stood, inFlight } = figures(attempts, [death], {}, { ...still, n2: [{ from: 13_100, to: 14_500 }] });
  assert.deepEqual([stood, judged(inFlight)], [0, [3_000]]);
});

test('a process that had to start is timed without the freezes before its start', () => {
  const attempts = [attempt('own', 'n3', 10_200, 14_500, 'RESULT')];
  const still = { n3: [{ from: 10_500, to: 12_000 }] };
  const { reborn, spawn } = figures(attempts, [death], { '10200': 14_000 }, still);
  assert.deepEqual([raw(reborn), judged(reborn), spawn], [[3_800], [2_300], [500]]);
});
