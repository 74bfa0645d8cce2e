import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

let collector: (() => void) | null = null;

/** Measured with Node 24; another version of V8 keeps its defaults (decision 009). */
const MEASURED = process.versions.node.startsWith('24.');

/** Whether the heap may triple before the next collection: large bodies are growth and no garbage. */
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

/** Smaller buffers cost the collector little; to follow them up would cost more. */
const LEND_FROM = 256 * 1024;
/** Sizes go up in steps of this, so that bodies of about one size use the same memory. */
const STEP = 128 * 1024;
/** Left free in front of a body, for a longer beginning: what is put into the words of another era gains a few members. */
export const HEADROOM = 4096;
/** Up to this size it is kept: the system hands out fresh memory page by page, zeroed, which costs more than to fill it. */
const MAX_KEPT_EACH = 16 * 1024 * 1024 + STEP;
const MAX_KEPT_BYTES = 4 * MAX_KEPT_EACH;
/** Memory that was not needed for so long is freed. */
const KEPT_MS = 5_000;

/** One for the process, so that memory can be given back without knowing who lent it. */
const pooled = new WeakMap<ArrayBufferLike, 'lent' | 'claimed' | 'shared'>();
/** The last given back is the first to be lent again, because it is in the processor's caches. */
const kept: ArrayBuffer[] = [];
let keptBytes = 0;
let letGoLater: NodeJS.Timeout | null = null;

/** Memory for one large body. As garbage, a hundred of them would cost a collection of the whole heap. */
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
 * Replaces what is before `from` and after `to`; the middle stays in place. Detaches every earlier view, so the caller
 * has the only one. Null, without effect, where the memory is not lent, is claimed or has no room.
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
 * Before a view of lent memory is sent that is not needed afterwards. True for the first caller; a second one makes the
 * memory shared, for the collector.
 */
export function claim(view: Buffer): boolean {
  const state = pooled.get(view.buffer);
  if (state === undefined) return false;
  pooled.set(view.buffer, state === 'lent' ? 'claimed' : 'shared');
  return state === 'lent';
}

/** For the only reader of the view, when it has read it: lent memory goes back at once. */
export function letGo(view: Buffer): void {
  if (claim(view)) giveBack(view);
}

export function dropKept(): void {
  if (letGoLater !== null) letHeapGrow(false);
  kept.length = 0;
  keptBytes = 0;
  if (letGoLater !== null) clearTimeout(letGoLater);
  letGoLater = null;
}

/**
 * Takes claimed memory back when nothing reads it, neither here nor in the kernel. All views are detached: a late
 * reader finds nothing, never another body.
 */
export function giveBack(view: Buffer): void {
  const memory = view.buffer;
  if (pooled.get(memory) !== 'claimed') return;
  pooled.delete(memory);
  const size = memory.byteLength;
  const keeps = size <= MAX_KEPT_EACH && keptBytes + size <= MAX_KEPT_BYTES;
  const moved = (memory as ArrayBuffer).transfer(keeps ? size : 0);
  if (!keeps) return;
  // While such bodies come by, they would have V8 walk the whole heap for every few of them.
  if (letGoLater === null) letHeapGrow(true);
  kept.push(moved);
  keptBytes += size;
  if (letGoLater === null) letGoLater = setTimeout(dropKept, KEPT_MS).unref();
  else letGoLater.refresh();
}

/** Frees a buffer's memory now. For its sole owner: views are detached. Parts of larger buffers stay. */
export function releaseBytes(bytes: Buffer): void {
  const memory = bytes.buffer;
  if (bytes.byteLength === 0 || bytes.byteLength !== memory.byteLength || !(memory instanceof ArrayBuffer)) return;
  memory.transfer(0);
}

/** Memory in use (F40), by its consequence. `short`: no new session; `scarce`: no large body; `spent`: no call. */
export type MemoryLevel = 'ample' | 'short' | 'scarce' | 'spent';

export function memoryLevel(share: number): MemoryLevel {
  if (share < 0.8) return 'ample';
  if (share < 0.9) return 'short';
  return share < 0.95 ? 'scarce' : 'spent';
}
