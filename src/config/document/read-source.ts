import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { Source } from '../problem/problem.ts';
import type { ProblemCode } from '../problem/problem-catalogue.ts';

const MIB = 1024 * 1024;
export const MAX_FILE_BYTES = 4 * MIB;

interface ReadFailure {
  readonly code: ProblemCode;
  readonly message: string;
}

/**
 * Reads a file that a configuration is or names. Synchronous, because configurations are small and are read at
 * start and on change only. Never blocks on a pipe or device, never reads more than `maxBytes`.
 */
export function readBytes(path: string, maxBytes: number): Buffer | ReadFailure {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return { code: 'TL1001', message: 'there is no such file' };
    return { code: 'TL1002', message: `cannot be opened (${code})` };
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) return { code: 'TL1002', message: 'is not a regular file' };
    if (stat.size > maxBytes) return { code: 'TL1003', message: `is larger than ${maxBytes / MIB} MiB` };
    // One byte more than allowed, so that a file that is growing right now is noticed.
    const buffer = Buffer.allocUnsafe(Math.min(stat.size + 4096, maxBytes + 1));
    let length = 0;
    while (length < buffer.length) {
      const count = readSync(fd, buffer, length, buffer.length - length, null);
      if (count === 0) break;
      length += count;
    }
    if (length > maxBytes) return { code: 'TL1003', message: `is larger than ${maxBytes / MIB} MiB` };
    return buffer.subarray(0, length);
  } catch (error) {
    return { code: 'TL1002', message: `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})` };
  } finally {
    closeSync(fd);
  }
}

export function isReadFailure(read: Buffer | ReadFailure): read is ReadFailure {
  return !Buffer.isBuffer(read);
}

/** The text of a configuration file. A UTF-8 byte-order mark is taken off; UTF-16 and binary files are refused. */
export function readSource(file: string): Source | ReadFailure {
  const bytes = readBytes(file, MAX_FILE_BYTES);
  if (isReadFailure(bytes)) return bytes;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return { code: 'TL1004', message: 'is not UTF-8 text' };
  }
  if (text.includes('\u0000')) return { code: 'TL1004', message: 'holds NUL characters: it is not a text file' };
  return new Source(file, text);
}
