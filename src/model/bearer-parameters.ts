const MAX_LENGTH = 8_192;
/** A parameter, or the scheme of the next challenge. */
const PART = /([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*)))?/g;

/** The parameters of the first `Bearer` or `DPoP` challenge in `WWW-Authenticate` (RFC 9110 §11.6.1); empty if there is none. */
export function bearerParameters(header: string | null): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  if (header === null || header.length > MAX_LENGTH) return found;
  let scheme = '';
  for (const [whole, name = '', quoted, bare] of header.matchAll(PART)) {
    if (!whole.includes('=')) {
      if (found.size > 0) break;
      scheme = name.toLowerCase();
    } else if (scheme === 'bearer' || scheme === 'dpop') {
      found.set(name.toLowerCase(), quoted?.replaceAll(/\\(.)/g, '$1') ?? bare ?? '');
    }
  }
  return found;
}
