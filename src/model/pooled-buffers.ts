import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collector = (options?: { readonly type: 'minor' }) => void;

let collector: Collector | null = null;

/**
 * Whether the heap, with what it holds outside of it, may grow to three times of what outlived a collection before the next
 * one, instead of what V8 thinks right: little more, where few objects are made. Large bodies are such growth and no garbage.
 */
function letHeapGrow(grows: boolean): void {
  setFlagsFromString(`--heap-growing-percent=${grows ? 200 : 0}`);
}

/** Frees what is garbage, at once: all of it, or of what is young. */
export function collectGarbage(which: 'all' | 'young'): void {
  if (collector === null) {
    setFlagsFromString('--expose-gc');
    collector = runInNewContext('gc') as Collector;
  }
  if (which === 'all') collector();
  else collector({ type: 'minor' });
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

/**
 * Memory for one large body that comes by once. Left to the garbage collector, a hundred of them make it walk the whole
 * heap, which costs more than passing them on does. What is never given back is collected like anything else.
 */
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
 * The bytes with another beginning, in place of what is before `from`, and another end, in place of what is from
 * `to` on; what lies between stays where it is. For the one who alone has the view: every view of before is detached.
 * Null, and nothing happens, where the memory is not lent, is claimed already, or has no room for that.
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
 * To be called before views of lent memory are sent that are not needed afterwards. Only one may: where a second
 * one comes, the memory is shared by both, and left to the collector. True for the first.
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

/** Lets go of what is kept for the next bodies: memory is scarce, or there have been none for a while. */
export function dropKept(): void {
  if (letGoLater !== null) letHeapGrow(false);
  kept.length = 0;
  keptBytes = 0;
  if (letGoLater !== null) clearTimeout(letGoLater);
  letGoLater = null;
}

/**
 * Takes back what was claimed, by a view of it; anything else is left alone. The caller says that nothing
 * reads it any more, neither here nor in the kernel. All views are detached: a reader who comes too late finds nothing,
 * never the bytes of another body.
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

/**
 * Frees the memory of a buffer at once instead of when the garbage collector comes by: what floods in is gone as fast as
 * it came, and resident memory does not grow by what is not read. Only for its sole owner: every view of it is detached.
 * A buffer that is part of a larger one is left alone.
 */
export function releaseBytes(bytes: Buffer): void {
  const memory = bytes.buffer;
  if (bytes.byteLength === 0 || bytes.byteLength !== memory.byteLength || !(memory instanceof ArrayBuffer)) return;
  memory.transfer(0);
}

/**
 * How much of the memory that this process may use is taken (F40): less than 80 %, from 80 %, from 90 %, from 95 %. With
 * `short` no session is opened, with `scarce` no large body is taken in and caches are emptied, with `spent` no call is begun.
 */
export type MemoryLevel = 'ample' | 'short' | 'scarce' | 'spent';

export function memoryLevel(share: number): MemoryLevel {
  if (share < 0.8) return 'ample';
  if (share < 0.9) return 'short';
  return share < 0.95 ? 'scarce' : 'spent';
}
