/**
 * Assembles the WebAssembly module of `src/protocol/escaped-text.ts`, which holds it in base64. `npm run generate` puts a changed
 * module there.
 */

/** Instructions of WebAssembly, by their names in its specification. */
const GET = 0x20;
const SET = 0x21;
const TEE = 0x22;
const I32_CONST = 0x41;
const I64_CONST = 0x42;
const I32 = 0x7f;
const I64 = 0x7e;
const VOID = 0x40;
const I64_EXTEND_I32_U = 0xad;
const I64_OR = 0x84;
const I64_XOR = 0x85;
const I64_AND = 0x83;
const I64_SHL = 0x86;
const I64_SHR_U = 0x88;
const I64_SUB = 0x7d;
const END = 0x0b;
const I8X16_BITMASK = [0xfd, 0x64];
const I8X16_EQ = [0xfd, 0x23];
const I8X16_SPLAT = [0xfd, 0x0f];

/** Places of the function's parameters and variables. */
const LENGTH = 0;
/** 1 where the first byte of the block is escaped, else 0. */
const ESCAPED = 1;
const AT = 2;
const QUOTES = 3;
const BACKSLASHES = 4;
const CODES = 5;

/** 0xaaaa…: every second bit. */
const ODD_BITS = [I64_CONST, ...signedLeb(BigInt.asIntN(64, 0xaaaa_aaaa_aaaa_aaaan))];

/** The module: exports `find` and its memory. */
export function escapedTextModule(): Buffer {
  const name = (text: string): number[] => [text.length, ...Buffer.from(text)];
  const section = (id: number, content: number[]): number[] => [id, ...leb(content.length), ...content];
  const body = [3, 1, I32, 2, I64, 1, I64, ...findCode()];
  return Buffer.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 2, I32, I64, 1, I32]),
    ...section(3, [1, 0]),
    ...section(5, [1, 0, 1]),
    ...section(7, [2, ...name('find'), 0, 0, ...name('memory'), 2, 0]),
    ...section(10, [1, ...leb(body.length), ...body]),
  ]);
}

/**
 * Finds the escaped bytes, a block at a time and without a branch, as simdjson does: subtracting the backslashes that may
 * begin an escape from the bits after them carries through each run of backslashes.
 */
function findCode(): number[] {
  return [
    ...[0x03, VOID], // loop
    ...mask(0x5c),
    ...[SET, BACKSLASHES],
    ...mask(0x22),
    ...[SET, QUOTES],
    // codes = (((backslashes & ~escaped) << 1 | odd) - (backslashes & ~escaped)) ^ odd
    ...[GET, BACKSLASHES, GET, ESCAPED, I64_CONST, 0x7f, I64_XOR, I64_AND, TEE, CODES, I64_CONST, 1, I64_SHL],
    ...[...ODD_BITS, I64_OR, GET, CODES, I64_SUB, ...ODD_BITS, I64_XOR, SET, CODES],
    // quotes &= ~(codes ^ (backslashes | escaped))
    ...[GET, QUOTES, GET, CODES, GET, BACKSLASHES, GET, ESCAPED, I64_OR, I64_XOR, I64_CONST, 0x7f, I64_XOR, I64_AND],
    ...[TEE, QUOTES, 0x50, 0x45, 0x04, VOID], // if (quotes != 0) return at + ctz(quotes) + 1
    ...[GET, AT, GET, QUOTES, 0x7a, 0xa7, 0x6a, I32_CONST, 1, 0x6a, 0x0f, END],
    // escaped = (codes & backslashes) >> 63
    ...[GET, CODES, GET, BACKSLASHES, I64_AND, TEE, CODES, I64_CONST, 63, I64_SHR_U, SET, ESCAPED],
    ...[GET, AT, I32_CONST, ...signedLeb(64n), 0x6a, TEE, AT, GET, LENGTH, 0x49, 0x0d, 0], // at += 64; br_if at < length
    END,
    // The last block may be cut short: take the bit that says whether the last byte of the text escapes the next one.
    ...[GET, CODES, GET, LENGTH, I32_CONST, 1, 0x6b, 0xad, I64_SHR_U, I64_CONST, 1, I64_AND, 0xa7],
    ...[I32_CONST, 0x7f, 0x73, END], // -1 ^ bit: -1 or -2
  ];
}

/** Pushes 64 bits, set for the bytes of the block that equal `byte`. */
function mask(byte: number): number[] {
  return [0, 16, 32, 48].flatMap((offset) => [
    ...[GET, AT, 0xfd, 0x00, 0, offset], // v128.load
    ...[I32_CONST, ...signedLeb(BigInt(byte)), ...I8X16_SPLAT, ...I8X16_EQ, ...I8X16_BITMASK, I64_EXTEND_I32_U],
    ...(offset === 0 ? [] : [I64_CONST, offset, I64_SHL, I64_OR]),
  ]);
}

function leb(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...leb(value >> 7)];
}

function signedLeb(value: bigint): number[] {
  const low = Number(value & 0x7fn);
  const rest = value >> 7n;
  return (rest === 0n && low < 0x40) || (rest === -1n && low >= 0x40) ? [low] : [low | 0x80, ...signedLeb(rest)];
}

/** The source of `escaped-text.ts` with the module as it is assembled here. */
export function withModule(source: string): string {
  const lines = escapedTextModule()
    .toString('base64')
    .match(/.{1,112}/g)!
    .map((line) => `  '${line}',\n`);
  return source.replace(/const MODULE = \[\n[^\]]*\]/, `const MODULE = [\n${lines.join('')}]`);
}
