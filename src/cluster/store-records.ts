import type { Bucket, StateRecord } from '../bus/shared-state.ts';
import { GatewayError } from '../model/gateway-error.ts';

/** Null if the value is not a JSON object. */
export function jsonIn<T extends object>(value: Buffer): T | null {
  try {
    const json: unknown = JSON.parse(value.toString());
    return typeof json === 'object' ? (json as T | null) : null;
  } catch {
    return null;
  }
}

/** Orders the owners of a claim: incarnation of the store, then revision. */
export function fencingToken(incarnation: string, revision: number): string {
  return `${incarnation}.${revision}`;
}

/** Writes over the record that was read, or (null) where there was none. Returns null if the record has changed since. */
export function compareAndSet(
  bucket: Bucket,
  key: string,
  value: Buffer,
  over: Pick<StateRecord, 'revision'> | null,
): Promise<number | null> {
  return over === null ? bucket.create(key, value) : bucket.update(key, value, over.revision);
}

/** The store would never accept the record. */
export function isTooLarge(error: unknown): error is GatewayError {
  return error instanceof GatewayError && error.code === 'TOO_LARGE';
}
