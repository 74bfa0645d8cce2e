/**
 * Where two servers offer the same URI (or template), each is exposed as `trunkline://{server}/{uri}`: the original
 * stands unchanged behind the prefix, so unwrapping is cutting it off, and a template stays the same template. Such
 * a URI is also accepted for any resource, to say which server is meant.
 */
const SCHEME = 'trunkline://';

/** Whether the gateway reads this as a wrapped URI: as an address at the server that it names, and at no other. */
export function isWrapped(uri: string): boolean {
  return uri.startsWith(SCHEME);
}

export function wrapUri(server: string, uri: string): string {
  return `${SCHEME}${server}/${uri}`;
}

export function unwrapUri(uri: string): { readonly server: string; readonly uri: string } | null {
  if (!isWrapped(uri)) return null;
  const slash = uri.indexOf('/', SCHEME.length);
  if (slash <= SCHEME.length) return null;
  return { server: uri.slice(SCHEME.length, slash), uri: uri.slice(slash + 1) };
}
