import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Source, suggest } from '../problem/problem.ts';
import type { ProblemCode } from '../problem/problem-catalogue.ts';

const BYTE_ORDER = 0xfeff;
const MIB = 1024 * 1024;
export const MAX_FILE_BYTES = 4 * MIB;
const MAX_PEM_BYTES = MIB;

export interface ReadFailure {
  readonly code: ProblemCode;
  readonly message: string;
  /** A more precise fix than that of the code. */
  readonly fix?: string;
}

/**
 * Reads a configuration file or a file that it names. Synchronous, since these files are small and are read at start and on
 * change only. Never blocks on a pipe or device, and never reads more than `maxBytes`.
 */
export function readBytes(path: string, maxBytes: number): Buffer | ReadFailure {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return { code: 'TL1001', message: 'there is no such file' };
    if (code !== 'EACCES' && code !== 'EPERM') return { code: 'TL1002', message: `cannot be opened (${code})` };
    return { code: 'TL1002', message: 'may not be read by this user', fix: 'let this user read it: chmod, or chown' };
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile())
      return { code: 'TL1002', message: stat.isDirectory() ? 'is a folder' : 'is not a regular file' };
    if (stat.size > maxBytes) return { code: 'TL1003', message: `is larger than ${maxBytes / MIB} MiB` };
    // One byte more than allowed detects a file that is growing.
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

/** Reads the files that a configuration or definition names, and collects their names: their change is a change of it. */
export class NamedFiles extends Set<string> {
  read(file: string, maxBytes: number): Buffer | ReadFailure {
    this.add(file);
    return readBytes(file, maxBytes);
  }
}

/** Reads a file of certificates or of a key. */
export function readPem(file: string, files = new NamedFiles()): Buffer | ReadFailure {
  const bytes = files.read(file, MAX_PEM_BYTES);
  if (isReadFailure(bytes) || bytes.includes('-----BEGIN ')) return bytes;
  return { code: 'TL1002', message: 'is not a PEM file' };
}

/** Suggests a file in the same folder whose name resembles the missing one. */
function nearTo(file: string): { readonly fix?: string } {
  try {
    const near = suggest(basename(file), readdirSync(dirname(file)));
    return near === null ? {} : { fix: `did you mean ${join(dirname(file), near)}?` };
  } catch {
    return {};
  }
}

/** The text of a configuration file, without a UTF-8 byte-order mark. Refuses UTF-16 and binary files. */
export function readSource(file: string): Source | ReadFailure {
  const bytes = readBytes(file, MAX_FILE_BYTES);
  if (isReadFailure(bytes)) return bytes.code === 'TL1001' ? { ...bytes, ...nearTo(file) } : bytes;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    const utf16 = bytes.length > 1 && (bytes.readUInt16LE(0) === BYTE_ORDER || bytes.readUInt16BE(0) === BYTE_ORDER);
    return { code: 'TL1004', message: utf16 ? 'is UTF-16, as PowerShell writes with ">"' : 'is not UTF-8 text' };
  }
  if (text.includes('\u0000')) return { code: 'TL1004', message: 'holds NUL characters: it is not a text file' };
  return new Source(file, text);
}
