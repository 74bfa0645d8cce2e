/**
 * Loaded into a gateway's process by Node itself (`NODE_OPTIONS=--import=…`), so that the product needs no knob: on
 * SIGUSR2 it collects garbage and writes what the process holds to the file named by PROBE_FILE.
 */
import { readdirSync, renameSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export interface Probed {
  readonly heapBytes: number;
  /** Of that, the program as V8 compiled it: bytecode, machine code and their metadata. */
  readonly codeBytes: number;
  /** Buffers and the like, beside the heap. */
  readonly externalBytes: number;
  readonly rssBytes: number;
  readonly timers: number;
  readonly descriptors: number;
  /** Event-loop delay since the last probe, or since it listens, in milliseconds. */
  readonly delayP50Ms: number;
  readonly delayP99Ms: number;
  readonly delayP999Ms: number;
  readonly delayMaxMs: number;
  /** CPU time of the longest turn of the event loop, which other load does not increase; as coarse as a millisecond or two. */
  readonly turnCpuMaxMs: number;
}

const file = process.env['PROBE_FILE'];
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();

let turnCpuMaxMs = 0;
let cpuBefore = cpuMs();
setInterval(() => {
  const cpu = cpuMs();
  turnCpuMaxMs = Math.max(turnCpuMaxMs, cpu - cpuBefore);
  cpuBefore = cpu;
}, 1).unref();

// The time to load the program does not count: no client can have sent a request yet.
const looking = setInterval(() => {
  if (!process.getActiveResourcesInfo().includes('TCPServerWrap')) return;
  clearInterval(looking);
  forget();
}, 1).unref();

/** The trusted spaces have the bytecode, and the metadata of machine code. */
function codeBytes(): number {
  let bytes = 0;
  for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
    if (/code|trusted/.test(space_name)) bytes += space_used_size;
  }
  return bytes;
}

process.on('SIGUSR2', () => {
  if (file === undefined) return;
  const ms = (percent: number): number => delays.percentile(percent) / 1e6;
  const measured = {
    delayP50Ms: ms(50),
    delayP99Ms: ms(99),
    delayP999Ms: ms(99.9),
    delayMaxMs: delays.max / 1e6,
    turnCpuMaxMs,
  };
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  collect();
  const probed: Probed = {
    ...measured,
    heapBytes: process.memoryUsage().heapUsed,
    codeBytes: codeBytes(),
    externalBytes: process.memoryUsage().external,
    rssBytes: process.memoryUsage.rss(),
    timers: process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length,
    descriptors: readdirSync('/proc/self/fd').length,
  };
  writeFileSync(`${file}.part`, JSON.stringify(probed));
  renameSync(`${file}.part`, file);
  forget();
});

function forget(): void {
  delays.reset();
  turnCpuMaxMs = 0;
  cpuBefore = cpuMs();
}

/** Of the thread that the event loop runs on. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
