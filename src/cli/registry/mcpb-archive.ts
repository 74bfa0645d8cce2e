import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { crc32 } from 'node:zlib';
import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl';
import { printable } from '../../model/printable.ts';
import { CommandError, usage } from '../exit-code.ts';

const MIB = 1024 * 1024;
export const MAX_ARCHIVE_BYTES = 512 * MIB;
const MAX_ENTRIES = 50_000;
const MAX_BYTES = 2048 * MIB;
/** Maximum ratio of unpacked size to file size, checked above `ANY_RATIO_BYTES`. */
const MAX_RATIO = 200;
const ANY_RATIO_BYTES = 16 * MIB;
const MAX_TEXT_BYTES = MIB;
const MAX_NAME = 512;
const PIECE_BYTES = 64 * 1024;

/** File types in Unix attributes. */
const KIND = 0o170000;
const PLAIN = [0, 0o100000];
const FOLDER = [0, 0o040000];
const EXECUTABLE = 0o111;

const SIGNATURE = { start: 'MCPB_SIG_V1', end: 'MCPB_SIG_END', maxBytes: 128 * 1024 };

/**
 * A zip file of unknown origin whose entries are all checked: no name leads outside, no two names are the same on any file
 * system, no entry is a link. yauzl takes names and sizes from the central directory alone, and fails an entry that inflates to
 * another size than the directory says, so the size limits hold for the written files.
 */
export class BundleArchive {
  /** SHA-256 of the file. */
  readonly digest: string;
  readonly #file: OpenFile;
  readonly #zip: ZipFile;
  readonly #entries: ReadonlyMap<string, Entry>;

  private constructor(digest: string, file: OpenFile, zip: ZipFile, entries: ReadonlyMap<string, Entry>) {
    this.digest = digest;
    this.#file = file;
    this.#zip = zip;
    this.#entries = entries;
  }

  /** `digest`: the expected digest; a file with another one is not read any further. Throws CommandError. */
  static async open(path: string, digest: string | null): Promise<BundleArchive> {
    const handle = await open(path).catch((error) => {
      throw notTaken(error);
    });
    const file = new OpenFile(handle, (await handle.stat()).size);
    try {
      if (file.size > MAX_ARCHIVE_BYTES) throw new Error(`it has more than ${MAX_ARCHIVE_BYTES / MIB} MiB`);
      const found = await file.digest();
      if (digest !== null && digest !== found) throw new Error(`its SHA-256 is ${found}, and has to be ${digest}`);
      const options = { autoClose: false, lazyEntries: true, strictFileNames: true };
      const zip = await fromRandomAccessReaderPromise(file, await file.unsignedSize(), options);
      return new BundleArchive(found, file, zip, await entriesOf(zip, file.size));
    } catch (error) {
      await file.end();
      throw notTaken(error);
    }
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  async text(name: string): Promise<string> {
    const entry = this.#entries.get(name);
    if (entry === undefined) throw notTaken(new Error(`it has no ${name}`));
    if (entry.uncompressedSize > MAX_TEXT_BYTES) throw notTaken(new Error(`${name} has more than 1 MiB`));
    try {
      return (await buffer(checked(await this.#zip.openReadStreamPromise(entry), entry))).toString('utf8');
    } catch (error) {
      throw notTaken(error);
    }
  }

  /** Extracts into a new folder. Keeps no attribute but execute permission; `program` always gets that. */
  async extract(folder: string, program: string): Promise<void> {
    try {
      for (const [name, entry] of this.#entries) {
        const path = join(folder, ...name.split('/'));
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        const canRun = name === program || ((entry.externalFileAttributes >>> 16) & EXECUTABLE) !== 0;
        const written = createWriteStream(path, { flags: 'wx', mode: canRun ? 0o700 : 0o600 });
        await pipeline(checked(await this.#zip.openReadStreamPromise(entry), entry), written);
      }
    } catch (error) {
      throw notTaken(error);
    }
  }

  close(): Promise<void> {
    return this.#file.end();
  }
}

/** One open file for digest and entries, so that both read the same content. */
class OpenFile extends RandomAccessReader {
  readonly size: number;
  readonly #handle: FileHandle;

  constructor(handle: FileHandle, size: number) {
    super();
    this.#handle = handle;
    this.size = size;
  }

  async digest(): Promise<string> {
    const hash = createHash('sha256');
    for await (const chunk of this.#pieces(0, this.size)) hash.update(chunk);
    return hash.digest('hex');
  }

  /** Size without the signature that `mcpb sign` appends, which is not verified. */
  async unsignedSize(): Promise<number> {
    const from = Math.max(0, this.size - SIGNATURE.maxBytes);
    const end = await buffer(this.#pieces(from, this.size));
    const start = end.lastIndexOf(SIGNATURE.start);
    const isSigned = start >= 0 && end.subarray(-SIGNATURE.end.length).equals(Buffer.from(SIGNATURE.end));
    return isSigned ? from + start : this.size;
  }

  override _readStreamForRange(start: number, end: number): Readable {
    return Readable.from(this.#pieces(start, end), { objectMode: false });
  }

  override read(into: Buffer, offset: number, length: number, at: number, done: ReadDone): void {
    this.#read(into.subarray(offset, offset + length), at).then(
      (count) => done(null, count),
      (error) => done(error),
    );
  }

  async *#pieces(start: number, end: number): AsyncGenerator<Buffer> {
    for (let at = start; at < end; ) {
      const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, end - at));
      const count = await this.#read(piece, at);
      yield piece.subarray(0, count);
      at += count;
    }
  }

  async #read(into: Buffer, at: number): Promise<number> {
    const { bytesRead } = await this.#handle.read(into, 0, into.length, at);
    if (bytesRead === 0 && into.length > 0) throw new Error('a part of it lies outside of the file');
    return bytesRead;
  }

  end(): Promise<void> {
    return this.#handle.close();
  }
}

type ReadDone = (error: Error | null, count?: number) => void;

/** The files in the archive, by name. Rejects with an Error that describes the fault. */
async function entriesOf(zip: ZipFile, size: number): Promise<ReadonlyMap<string, Entry>> {
  const entries = new Map<string, Entry>();
  const places = new Map<string, TakenPath>();
  let bytes = 0;
  const tooMany = () => new Error(`it has more than ${MAX_ENTRIES} files and folders`);
  if (zip.entryCount > MAX_ENTRIES) throw tooMany();
  for await (const entry of zip.eachEntry()) {
    const { fileName: name } = entry;
    const fault = nameFault(name) ?? entryFault(entry) ?? placeFault(name, places);
    if (fault !== null) throw new Error(`${JSON.stringify(name.slice(0, 100))} ${fault}`);
    if (places.size > MAX_ENTRIES) throw tooMany();
    bytes += entry.uncompressedSize;
    if (bytes > MAX_BYTES) throw new Error(`it unpacks to more than ${MAX_BYTES / MIB} MiB`);
    if (bytes > ANY_RATIO_BYTES && bytes > size * MAX_RATIO) {
      throw new Error(`it unpacks to more than ${MAX_RATIO} times its size`);
    }
    if (!name.endsWith('/')) entries.set(name, entry);
  }
  return entries;
}

function nameFault(name: string): string | null {
  if (name.length > MAX_NAME) return `has a name of more than ${MAX_NAME} characters`;
  if (/[\0-\x1f\x7f\\:]/.test(name)) return 'has a control character, a backslash or a colon in its name';
  const steps = name.replace(/\/$/, '').split('/');
  return steps.some((step) => ['', '.', '..'].includes(step)) ? 'is no plain path' : null;
}

function entryFault(entry: Entry): string | null {
  if (entry.isEncrypted()) return 'is encrypted';
  if (!entry.canDecodeFileData()) return `is packed by method ${entry.compressionMethod}, and only deflate is known`;
  const kinds = entry.fileName.endsWith('/') ? FOLDER : PLAIN;
  return kinds.includes((entry.externalFileAttributes >>> 16) & KIND) ? null : 'is a link or a special file';
}

interface TakenPath {
  readonly path: string;
  readonly isFile: boolean;
}

/** File systems may treat names as equal that differ in case, in Unicode normalization, or in trailing dots and blanks. */
function placeFault(name: string, places: Map<string, TakenPath>): string | null {
  const steps = name.replace(/\/$/, '').split('/');
  for (let length = 1; length <= steps.length; length++) {
    const path = steps.slice(0, length).join('/');
    const isFile = length === steps.length && !name.endsWith('/');
    const folded = path
      .normalize('NFKC')
      .toUpperCase()
      .toLowerCase()
      .replaceAll(/[. ]+(?=\/|$)/g, '');
    const known = places.get(folded);
    if (known === undefined) places.set(folded, { path, isFile });
    else if (known.path !== path) return `and ${JSON.stringify(known.path)} are one on some systems`;
    else if (isFile || known.isFile) return 'is there twice';
  }
  return null;
}

/** Verifies the CRC-32, which yauzl does not. */
async function* checked(source: AsyncIterable<Buffer>, { crc32: expected, fileName }: Entry) {
  let sum = 0;
  for await (const chunk of source) {
    sum = crc32(chunk, sum);
    yield chunk;
  }
  if (sum !== expected) throw new Error(`${JSON.stringify(fileName)} is damaged`);
}

function notTaken(error: unknown): CommandError {
  if (error instanceof CommandError) return error;
  return usage(`the bundle is not taken: ${printable((error as Error).message)}`, {
    cause: error,
  });
}
