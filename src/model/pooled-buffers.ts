import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

let collector: (() => void) | null = null;

/** Measured with Node 24; V8 of another version keeps its defaults (decision 009). */
const MEASURED = process.versions.node.startsWith('24.');

/** Lets the heap triple before the next collection, because large bodies make it grow without making garbage. */
function letHeapGrow(grows: boolean): void {
  if (MEASURED) setFlagsFromString(`--heap-growing-percent=${grows ? 200 : 0}`);
}

export function collectGarbage(): void {
  if (collector === null) {
    setFlagsFromString('--expose-gc');
    collector = runInNewContext('gc') as () => void;
  }
  collector();
}

/** Smaller buffers cost the collector little; tracking them would cost more. */
const LEND_FROM = 256 * 1024;
/** Granularity of sizes, so that bodies of similar size reuse the same memory. */
const STEP = 128 * 1024;
/** Free space before a body for a longer beginning: translation into the other era adds a few members. */
export const HEADROOM = 4096;
/** Memory up to this size is kept: the system hands out fresh memory page by page, zeroed, which costs more than filling it. */
const MAX_KEPT_EACH = 16 * 1024 * 1024 + STEP;
const MAX_KEPT_BYTES = 4 * MAX_KEPT_EACH;
/** Kept memory is freed after this long without use. */
const IDLE_MS = 5_000;

/** One pool per process, so that memory can be returned without knowing its lender. */
const pooled = new WeakMap<ArrayBufferLike, 'lent' | 'claimed' | 'shared'>();
/** Used as a stack: the memory returned last is in the processor caches. */
const kept: ArrayBuffer[] = [];
let keptBytes = 0;
let clearTimer: NodeJS.Timeout | null = null;

/** Memory for one large body. As garbage, a hundred such bodies would cost a collection of the whole heap. */
export function takeBuffer(bytes: number): Buffer {
  if (bytes < LEND_FROM) return Buffer.allocUnsafe(bytes);
  const size = HEADROOM + bytes;
  let memory: ArrayBufferLike | null = null;
  for (let i = kept.length - 1; i >= 0 && memory === null; i--) {
    const candidate = kept[i]!;
    if (candidate.byteLength < size || candidate.byteLength > 2 * size) continue;
    kept.splice(i, 1);
    keptBytes -= candidate.byteLength;
    memory = candidate;
  }
  memory ??= Buffer.allocUnsafeSlow(Math.ceil(size / STEP) * STEP).buffer;
  pooled.set(memory, 'lent');
  return Buffer.from(memory, HEADROOM, bytes);
}

/**
 * Replaces the bytes before `from` and after `to`; the middle stays in place. Detaches every earlier view, so the caller has
 * the only one. Returns null, without effect, if the memory is not lent, is claimed or has too little room.
 */
export function reframed(view: Buffer, from: number, to: number, head: Buffer, back: Buffer): Buffer | null {
  const memory = view.buffer;
  const start = view.byteOffset + from - head.length;
  const end = view.byteOffset + to + back.length;
  if (pooled.get(memory) !== 'lent' || start < 0 || end > memory.byteLength) return null;
  pooled.delete(memory);
  const moved = (memory as ArrayBuffer).transfer();
  pooled.set(moved, 'lent');
  const whole = Buffer.from(moved, start, end - start);
  head.copy(whole);
  back.copy(whole, whole.length - back.length);
  return whole;
}

/**
 * Call before sending a view that is not needed afterwards. Returns true for the first caller; a second caller makes the
 * memory shared, which leaves it to the garbage collector.
 */
export function claim(view: Buffer): boolean {
  const state = pooled.get(view.buffer);
  if (state === undefined) return false;
  pooled.set(view.buffer, state === 'lent' ? 'claimed' : 'shared');
  return state === 'lent';
}

/** For the only reader of the view, once it has read it: returns lent memory to the pool at once. */
export function claimAndReturn(view: Buffer): void {
  if (claim(view)) returnClaimed(view);
}

export function clearPool(): void {
  kept.length = 0;
  keptBytes = 0;
  if (clearTimer === null) return;
  letHeapGrow(false);
  clearTimeout(clearTimer);
  clearTimer = null;
}

/**
 * Takes claimed memory back into the pool. Call it when neither this process nor the kernel reads the memory. It detaches
 * all views, so a late reader finds nothing instead of another body.
 */
export function returnClaimed(view: Buffer): void {
  const memory = view.buffer;
  if (pooled.get(memory) !== 'claimed') return;
  pooled.delete(memory);
  const size = memory.byteLength;
  const keeps = size <= MAX_KEPT_EACH && keptBytes + size <= MAX_KEPT_BYTES;
  const moved = (memory as ArrayBuffer).transfer(keeps ? size : 0);
  if (!keeps) return;
  // Without this, V8 would walk the whole heap for every few such bodies.
  if (clearTimer === null) letHeapGrow(true);
  kept.push(moved);
  keptBytes += size;
  if (clearTimer === null) clearTimer = setTimeout(clearPool, IDLE_MS).unref();
  else clearTimer.refresh();
}

/** Frees the memory of a buffer at once and detaches its views. Only for its sole owner; slices of larger buffers stay. */
export function releaseBytes(bytes: Buffer): void {
  const memory = bytes.buffer;
  if (bytes.byteLength === 0 || bytes.byteLength !== memory.byteLength || !(memory instanceof ArrayBuffer)) return;
  memory.transfer(0);
}

/** Memory use (F40) by its consequence. `short`: no new session; `scarce`: no large body; `spent`: no call. */
export type MemoryLevel = 'ample' | 'short' | 'scarce' | 'spent';

export function memoryLevel(share: number): MemoryLevel {
  if (share < 0.8) return 'ample';
  if (share < 0.9) return 'short';
  return share < 0.95 ? 'scarce' : 'spent';
}
