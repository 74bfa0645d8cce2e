const LF = 0x0a;
const CR = 0x0d;
const DATA = Buffer.from('data: ');
const NEXT_LINE = Buffer.from('\ndata: ');
const END = Buffer.from('\n\n');
/** Up to this size a frame is gathered in one buffer: one copy costs less than a long list of pieces. */
export const COPY_BYTES = 16 * 1024;

/** One SSE event on the wire, in pieces. Large pieces are views of the input, not copies. */
export interface SseFrame {
  readonly parts: readonly Buffer[];
  readonly length: number;
  /** Its bytes are in the memory of the streams, see `StreamMemory`. */
  readonly inBlocks?: boolean;
}

/**
 * Frames one event. Every line break in the data (LF, CRLF or CR) begins a new `data:` line. The id must not contain line
 * breaks or NUL.
 */
export function eventFrame(id: string | null, parts: readonly Buffer[], event: string | null = null): SseFrame {
  const fields = (id === null ? '' : `id: ${id}\n`) + (event === null ? '' : `event: ${event}\n`);
  const pieces: Buffer[] = fields === '' ? [DATA] : [Buffer.from(`${fields}data: `)];
  let afterCr = false;
  for (const part of parts) {
    if (!afterCr && part.indexOf(LF) < 0 && part.indexOf(CR) < 0) pieces.push(part);
    else afterCr = pushLines(pieces, part, afterCr);
  }
  pieces.push(END);
  return joined(pieces);
}

/** A comment; no application sees it, but it keeps the stream alive. */
export function commentFrame(text: string): SseFrame {
  const piece = Buffer.from(`: ${text.replace(/[\r\n]+/g, ' ')}\n\n`);
  return { parts: [piece], length: piece.length };
}

/** Returns whether the part ended in CR, whose LF may begin the next part. */
function pushLines(pieces: Buffer[], part: Buffer, afterCr: boolean): boolean {
  let start = afterCr && part[0] === LF ? 1 : 0;
  let crSeen = afterCr && part.length === 0;
  for (let i = start; i < part.length; i++) {
    const byte = part[i];
    if (byte !== LF && byte !== CR) continue;
    pieces.push(part.subarray(start, i), NEXT_LINE);
    crSeen = byte === CR && i + 1 === part.length;
    if (byte === CR && part[i + 1] === LF) i++;
    start = i + 1;
  }
  if (start < part.length) pieces.push(part.subarray(start));
  return crSeen;
}

function joined(pieces: Buffer[]): SseFrame {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  if (length > COPY_BYTES) return { parts: pieces, length };
  const whole = Buffer.allocUnsafe(length);
  let at = 0;
  for (const piece of pieces) at += piece.copy(whole, at);
  return { parts: [whole], length };
}
