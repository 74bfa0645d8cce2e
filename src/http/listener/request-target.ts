/** Longest request target taken, path and query together. */
export const MAX_TARGET_BYTES = 8 * 1024;

const SEGMENT = /^[A-Za-z0-9._~-]{1,255}$/;
const PLAIN_PATH = /^(?:\/[A-Za-z0-9._~!$&'()*+,;=:@-]*)+$/;
const TRAVERSAL = /\/\.{1,2}(?:\/|$)|\/\//;

/**
 * Why a path without a route is malformed rather than unknown; null for a plain one. Paths are never decoded or
 * normalised: what would need that (`%2f`, `..`, `//`, NUL) is refused.
 */
export function pathProblem(path: string): string | null {
  if (!path.startsWith('/')) return 'the request target is not a path on this server';
  if (!PLAIN_PATH.test(path)) return 'the path has characters that need no place in one of ours';
  if (TRAVERSAL.test(path)) return 'the path has empty or dot segments';
  return null;
}

/** One path segment that may stand for a name. */
export function isSegment(text: string): boolean {
  return SEGMENT.test(text) && text !== '.' && text !== '..';
}
