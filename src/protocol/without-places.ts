import type { ErrorCode } from '../model/error-catalogue.ts';

/** Failures whose words come from the servers' side: of starting, connecting, reading what came. */
const FROM_BEHIND: ReadonlySet<ErrorCode> = new Set([
  'NOT_SENT',
  'UNKNOWN',
  'TIMEOUT',
  'UPSTREAM_PROTOCOL',
  'AUTH_REQUIRED',
  'TOO_LARGE',
  'INTERNAL',
]);
const ADDRESS = /\b[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'`()<>]+/gi;
const PATH = /(?<![\w./:~-])(?:~|\.{1,2})?\/(?:[^\s"'`()<>,;:/]+\/)*([^\s"'`()<>,;:/]+)/g;

/**
 * What a client is told of a failure: where servers live, addresses and folders, is the operator's affair and stands
 * in the status. The last part of a path stays, so that the words still say what is missing.
 */
export function withoutPlaces(code: ErrorCode, words: string): string {
  return FROM_BEHIND.has(code) ? words.replace(ADDRESS, '[address]').replace(PATH, '$1') : words;
}
