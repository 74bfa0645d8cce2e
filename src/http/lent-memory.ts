/** Smaller buffers cost the collector little; to follow them up would cost more. */
const LEND_FROM = 256 * 1024;
/** Sizes go up in steps of this, so that bodies of about one size use the same memory. */
const STEP = 128 * 1024;
const MAX_KEPT_EACH = 4 * 1024 * 1024;
const MAX_KEPT_BYTES = 16 * 1024 * 1024;

/** One for the process, like the memory it hands out: whoever gives something back need not know who lent it. */
const lent = new WeakSet<ArrayBufferLike>();
/** The last given back is the first to be lent again, because it is in the processor's caches. */
const kept: ArrayBuffer[] = [];
let keptBytes = 0;

/**
 * Memory for one large body that comes by once. Left to the garbage collector, a hundred of them make it walk the whole
 * heap, which costs more than passing them on does. What is never given back is collected like anything else.
 */
export function lend(bytes: number): Buffer {
  if (bytes < LEND_FROM) return Buffer.allocUnsafe(bytes);
  let memory: ArrayBufferLike | null = null;
  for (let i = kept.length - 1; i >= 0 && memory === null; i--) {
    const candidate = kept[i]!;
    if (candidate.byteLength < bytes || candidate.byteLength > 2 * bytes) continue;
    kept.splice(i, 1);
    keptBytes -= candidate.byteLength;
    memory = candidate;
  }
  memory ??= Buffer.allocUnsafeSlow(Math.ceil(bytes / STEP) * STEP).buffer;
  lent.add(memory);
  return Buffer.from(memory, 0, bytes);
}

/**
 * Takes back what was lent, by a view of it; anything else is left alone. Whoever gives it back says that nothing reads
 * it any more, neither here nor in the kernel. All views are detached: a reader who comes too late finds nothing,
 * never the bytes of somebody else.
 */
export function giveBack(view: Buffer): void {
  const memory = view.buffer;
  if (!lent.delete(memory)) return;
  const size = memory.byteLength;
  const keeps = size <= MAX_KEPT_EACH && keptBytes + size <= MAX_KEPT_BYTES;
  const moved = (memory as ArrayBuffer).transfer(keeps ? size : 0);
  if (!keeps) return;
  kept.push(moved);
  keptBytes += size;
}

/** Whether the view is of memory that is lent. */
export function isLent(view: Buffer): boolean {
  return lent.has(view.buffer);
}
