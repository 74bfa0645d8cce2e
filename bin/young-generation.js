// Plain JavaScript, as everything that runs before it is known which Node there is.
import { performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

const MIB = 0x100000;
const LOOK_MS = 1_000;
/** Of the time between two looks: a process that has less to do rests. */
const BUSY_SHARE = 0.1;

/**
 * Lets each half of the heap's young generation have so many MiB and no more. V8 would begin with 1 and go up to 64, of
 * which every byte is resident before the first collection. The maximum can only be chosen before a process starts; but
 * how far the next step goes can be chosen at any time, so that one is provoked now, and then there is none.
 *
 * V8 takes most of it back from a process that rests, and never gives it back while there are no steps: calls would cost
 * a fifth more for as long as the process lives. So it is looked after, and provoked anew when there is something to do.
 */
export function boundYoungGeneration(mebibytes) {
  grow(mebibytes * MIB);
  let before = performance.eventLoopUtilization();
  setInterval(() => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    if (utilization >= BUSY_SHARE) grow(mebibytes * MIB);
  }, LOOK_MS).unref();
}

function grow(bytes) {
  const before = halfBytes();
  const factor = Math.round(bytes / before);
  // What is within a third of it is left as it is.
  if (!(factor > 1)) return;
  setFlagsFromString(`--semi-space-growth-factor=${factor}`);
  const survivors = [];
  // V8 takes the step once more has outlived collections than there is room for.
  for (let i = 0; i < 40 && halfBytes() < before * 1.5; i++) {
    for (let j = 0; j < 4_000; j++) survivors.push([j]);
  }
  setFlagsFromString('--semi-space-growth-factor=1');
}

/** What there is room for until the next collection. */
function halfBytes() {
  const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space');
  return young === undefined ? Number.POSITIVE_INFINITY : young.space_used_size + young.space_available_size;
}
