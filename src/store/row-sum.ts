import { crc32 } from 'node:zlib';

/** A sum over each row finds a damaged value, which SQLite does not notice (F35). */

export function recordSum(bucket: string, key: string, value: Uint8Array): number {
  return crc32(value, crc32(`${bucket}\0${key}\0`));
}

export function eventSum(session: string, seq: number, stream: string, at: number, message: Uint8Array): number {
  return crc32(message, crc32(`${session}\0${seq}\0${stream}\0${at}\0`));
}

export function storedRowSum(collection: string, key: string, value: string, revision: number): number {
  return crc32(value, crc32(`${collection}\0${key}\0${revision}\0`));
}
