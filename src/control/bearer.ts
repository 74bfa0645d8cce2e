import { createHash, timingSafeEqual } from 'node:crypto';
import type { RequestContext } from '../http/listener/request-context.ts';

/** Digest of a token, for comparison in constant time. */
export function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Whether the bearer token of the request is one of these tokens. Takes the same time for any wrong one. */
export function hasBearerToken(context: RequestContext, digests: readonly Buffer[]): boolean {
  const [, token = ''] = /^Bearer ([\x21-\x7e]+)$/i.exec(context.header('authorization') ?? '') ?? [];
  const shown = digestOf(token);
  return digests.some((digest) => timingSafeEqual(shown, digest));
}
