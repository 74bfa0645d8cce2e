import { computed, signal } from '@preact/signals';
import { CallFilterError, callFilter } from '../../../../src/model/call-filter.ts';
import { type Call, listCalls } from '../../api/operations.ts';
import { onLive, stopAll } from '../../live.ts';

/** As many as a node keeps. */
const KEPT = 10_000;

/** A call with its times as numbers, which are read for every drawing. */
export interface TimedCall {
  readonly call: Call;
  readonly from: number;
  readonly to: number;
}

/** The one that ended last is the last. */
const all = signal<readonly TimedCall[]>([]);
const error = signal<Error | null>(null);
export const isRead = signal(false);
/** How often the list was read. */
export const reads = signal(0);
/** The nodes that nothing was read of. */
export const silent = signal<readonly string[]>([]);
/** Calls came faster than they were told. */
export const missing = signal(false);
export const filterText = signal('');
/** While it is on, what comes is kept back, and the picture stays. */
export const paused = signal(false);

const filter = computed<{ readonly wanted: (call: Call) => boolean; readonly error: string | null }>(() => {
  try {
    return { wanted: callFilter(filterText.value), error: null };
  } catch (error) {
    if (!(error instanceof CallFilterError)) throw error;
    return { wanted: () => true, error: error.message };
  }
});

/** What is wrong with the filter; null for nothing. */
export const filterError = computed(() => filter.value.error);

export const shown = computed<readonly TimedCall[]>(() => {
  const { wanted } = filter.value;
  return all.value.filter(({ call }) => wanted(call));
});

let heldBack: TimedCall[] = [];
/** Lists that are being read: what comes meanwhile may not be in them. */
let reading = 0;
/** The list has to be read when the picture goes on. */
let isStale = false;

async function readCalls(): Promise<void> {
  isStale = paused.value && isRead.value;
  if (isStale) return;
  heldBack = [];
  missing.value = false;
  reading++;
  try {
    const { calls, silent: nodes = [] } = await listCalls({ limit: KEPT });
    all.value = calls.map(timed);
    silent.value = nodes;
    error.value = null;
    isRead.value = true;
    reads.value++;
  } catch (cause) {
    error.value = cause as Error;
    missing.value = isRead.value;
  }
  reading--;
  add([]);
}

export const callsReading = { error, again: () => void readCalls() };

/** Has the calls follow the live stream; the returned function ends that. */
export function followCalls(): () => void {
  void readCalls();
  return stopAll(
    onLive('hello', () => void readCalls()),
    onLive('calls', ({ calls, lost }) => {
      if (lost) missing.value = true;
      add(calls.map(timed));
    }),
  );
}

export function readAgain(): void {
  paused.value = false;
  void readCalls();
}

export function resume(): void {
  paused.value = false;
  if (isStale) void readCalls();
  else add([]);
}

function add(more: readonly TimedCall[]): void {
  if (paused.value || reading > 0) {
    heldBack.push(...more);
    heldBack.splice(0, heldBack.length - KEPT);
    return;
  }
  const now = [...heldBack, ...more];
  heldBack = [];
  if (now.length === 0) return;
  const known = new Set(all.value.slice(-2_000).map(({ call }) => call.id));
  const fresh = now.filter(({ call }) => !known.has(call.id));
  if (fresh.length > 0) all.value = [...all.value, ...fresh].slice(-KEPT);
}

function timed(call: Call): TimedCall {
  const from = Date.parse(call.time);
  return { call, from, to: from + call.ms };
}
