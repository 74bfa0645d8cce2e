/**
 * Finds the end of a long JSON string with escapes 64 bytes at a time with WebAssembly SIMD; a loop would take longer than
 * the rest of the call. The module reads its own memory, so text is copied there window by window.
 */
const MAX_WINDOW = 32 * 1024;
/** The first window; each later one is twice as large, so that a short string in a long document needs no long copy. */
const FIRST_WINDOW = 1024;
const BLOCK = 64;

/** Result of `find` if the text does not end, and its last byte escapes the next one. */
const ESCAPES_NEXT = -2;

/** The part of WebAssembly that is used here; the types of Node do not declare it. */
declare const WebAssembly: {
  validate(code: Uint8Array): boolean;
  Module: new (code: Uint8Array) => object;
  Instance: new (module: object) => { readonly exports: { readonly memory: { buffer: ArrayBuffer }; find: Find } };
};

type Find = (length: number, escaped: bigint) => number;

interface Search {
  /** The position after the closing quotation mark in the first `length` bytes; -1 or `ESCAPES_NEXT` if there is none. */
  readonly find: Find;
  readonly memory: Buffer;
}

/** Undefined until first needed; null if the processor has no SIMD instructions that WebAssembly can use. */
let search: Search | null | undefined;

/** `at` is inside a string, not inside an escape. The position after the closing quotation mark, or -1; null without SIMD. */
export function endOfEscaped(bytes: Buffer, at: number, end: number): number | null {
  if (search === undefined) search = newSearch();
  if (search === null) return null;
  const { find, memory } = search;
  let escaped = 0n;
  for (let window = FIRST_WINDOW; at < end; window = Math.min(2 * window, MAX_WINDOW)) {
    const length = bytes.copy(memory, 0, at, Math.min(at + window, end));
    memory.fill(0, length, length + BLOCK);
    const found = find(length, escaped);
    if (found >= 0) return at + found;
    escaped = found === ESCAPES_NEXT ? 1n : 0n;
    at += length;
  }
  return -1;
}

/** Assembled by `scripts/escaped-text-module.ts`. */
const MODULE = [
  'AGFzbQEAAAABBwFgAn9+AX8DAgEABQMBAAEHEQIEZmluZAAABm1lbW9yeQIACpkCAZYCAwF/An4BfgNAIAL9AAAAQdwA/Q/9I/1krSAC/QAAEEHc',
  'AP0P/SP9ZK1CEIaEIAL9AAAgQdwA/Q/9I/1krUIghoQgAv0AADBB3AD9D/0j/WStQjCGhCEEIAL9AAAAQSL9D/0j/WStIAL9AAAQQSL9D/0j/WSt',
  'QhCGhCAC/QAAIEEi/Q/9I/1krUIghoQgAv0AADBBIv0P/SP9ZK1CMIaEIQMgBCABQn+FgyIFQgGGQqrVqtWq1arVqn+EIAV9QqrVqtWq1arVqn+F',
  'IQUgAyAFIAQgAYSFQn+FgyIDUEUEQCACIAN6p2pBAWoPCyAFIASDIgVCP4ghASACQcAAaiICIABJDQALIAUgAEEBa62IQgGDp0F/cws=',
].join('');

function newSearch(): Search | null {
  const code = Buffer.from(MODULE, 'base64');
  if (!WebAssembly.validate(code)) return null;
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(code));
  return { find: exports.find, memory: Buffer.from(exports.memory.buffer) };
}
