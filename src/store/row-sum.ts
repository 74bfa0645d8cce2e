import { crc32 } from 'node:zlib';

/*
 * SQLite notices when the structure of its file is damaged, not when a bit within a value is. So every row carries a
 * sum over all of it, by which a damaged one is known (F35).
 */

export function recordSum(bucket: string, key: string, value: Uint8Array): number {
  return crc32(value, crc32(`${bucket}\0${key}\0`));
}

export function eventSum(session: string, seq: number, stream: string, at: number, message: Uint8Array): number {
  return crc32(message, crc32(`${session}\0${seq}\0${stream}\0${at}\0`));
}

export function storedRowSum(collection: string, key: string, value: string, revision: number): number {
  return crc32(value, crc32(`${collection}\0${key}\0${revision}\0`));
}
