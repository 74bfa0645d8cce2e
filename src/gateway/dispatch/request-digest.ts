import { createHash } from 'node:crypto';
import type { Message } from '../../model/message.ts';
import { canonical } from '../../protocol/canonical.ts';
import { editObject } from '../../protocol/splice.ts';

/** Params that differ between the rounds of one request (2026-07-28 basic/patterns/mrtr). */
const OF_A_ROUND = [
  ['_meta', null],
  ['inputResponses', null],
  ['requestState', null],
] as const;

/** A digest of a request's method and params, without those that differ between rounds. */
export function requestDigest({ bytes, method, bodyStart, bodyEnd }: Message): string {
  const params = bodyStart < 0 ? '{}' : editObject(bytes, { start: bodyStart, end: bodyEnd }, OF_A_ROUND);
  return createHash('sha256').update(`${method}\0`).update(canonical(params)).digest('base64url');
}
