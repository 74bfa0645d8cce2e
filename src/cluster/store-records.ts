import type { Bucket, StateRecord } from '../bus/shared-state.ts';

/** Null if it is no JSON object. */
export function jsonIn<T extends object>(value: Buffer): T | null {
  try {
    const json: unknown = JSON.parse(value.toString());
    return typeof json === 'object' ? (json as T | null) : null;
  } catch {
    return null;
  }
}

/** Orders the owners of a claim: incarnation of the store and revision. */
export function fencingToken(incarnation: string, revision: number): string {
  return `${incarnation}.${revision}`;
}

/** Over the record that was read, null: over none. Null if there is another one. */
export function writeOver(
  bucket: Bucket,
  key: string,
  value: Buffer,
  over: Pick<StateRecord, 'revision'> | null,
): Promise<number | null> {
  return over === null ? bucket.create(key, value) : bucket.update(key, value, over.revision);
}
