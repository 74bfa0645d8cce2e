import { crc32, deflateRawSync } from 'node:zlib';

/** The values of an entry, true or not; missing ones are as a packer writes them. */
export interface ZipEntry {
  readonly name: string;
  readonly data?: string | Buffer;
  /** Unix mode, with the kind of file. */
  readonly mode?: number;
  readonly flags?: number;
  readonly method?: number;
  readonly size?: number;
  readonly crc?: number;
  readonly extra?: Buffer;
  /** Name in front of the data, which readers of the directory do not look at. */
  readonly localName?: string;
  /** Its offset in the directory. */
  readonly at?: number;
  /** Uses the data of the previous entry. */
  readonly overlaps?: boolean;
}

/** A zip file with any values that a hostile packer could write. `count`: the number of entries in its header. */
export function zipFile(entries: readonly ZipEntry[], count = entries.length): Buffer {
  const pieces: Buffer[] = [];
  const directory: Buffer[] = [];
  let length = 0;
  let before = { at: 0, packed: Buffer.alloc(0) };
  for (const entry of entries) {
    const { name, flags = 0x800, method = 8, extra = Buffer.alloc(0), overlaps = false } = entry;
    const { mode = name.endsWith('/') ? 0o040755 : 0o100644 } = entry;
    const data = Buffer.from(entry.data ?? '');
    const { size = data.length, crc = crc32(data), localName = name } = entry;
    const packed = overlaps ? before.packed : method === 8 ? deflateRawSync(data) : data;
    const at = overlaps ? before.at : length;
    const facts = numbers([2, 20], [2, flags], [2, method], [4, 0], [4, crc], [4, packed.length], [4, size]);
    if (!overlaps) {
      const local = Buffer.from(localName);
      const whole = Buffer.concat([numbers([4, 0x04034b50]), facts, numbers([2, local.length], [2, 0]), local, packed]);
      pieces.push(whole);
      length += whole.length;
    }
    before = { at, packed };
    const called = Buffer.from(name);
    const sizes = numbers(
      [2, called.length],
      [2, extra.length],
      [2, 0],
      [2, 0],
      [2, 0],
      [4, mode * 0x10000],
      [4, entry.at ?? at],
    );
    directory.push(numbers([4, 0x02014b50], [2, 0x0314]), facts, sizes, called, extra);
  }
  const whole = Buffer.concat(directory);
  const end = numbers([4, 0x06054b50], [4, 0], [2, count], [2, count], [4, whole.length], [4, length], [2, 0]);
  return Buffer.concat([...pieces, whole, end]);
}

/** Little-endian numbers of so many bytes each. */
export function numbers(...all: readonly (readonly [number, number])[]): Buffer {
  return Buffer.concat(
    all.map(([bytes, value]) => {
      const piece = Buffer.alloc(bytes);
      piece.writeUIntLE(value, 0, bytes);
      return piece;
    }),
  );
}
