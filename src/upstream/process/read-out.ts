import type { Readable } from 'node:stream';

/**
 * Hands over what the stream has read and nobody has heard, and lets `heard` hear the rest as it comes. A stream that is
 * closed gives what is in it only when asked, and tells nobody.
 */
export function readOut(stream: Readable, heard: (chunk: Buffer) => void, take: (chunk: Buffer) => void): void {
  stream.off('data', heard);
  for (let chunk = next(stream); chunk !== null; chunk = next(stream)) take(chunk);
  stream.on('data', heard).resume();
}

function next(stream: Readable): Buffer | null {
  return stream.read() as Buffer | null;
}
