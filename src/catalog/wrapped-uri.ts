/**
 * Where two servers offer the same URI (or template), each is exposed as `trunkline://{server}/{uri}`: the original
 * is unchanged behind the prefix, so unwrapping is cutting it off, and a template stays the same template. Such
 * a URI is also accepted for any resource, to say which server is meant.
 *
 * URIs of the schemes `ui` (MCP Apps) and `skill` (SEP-2640) mean something only to the server that gives them, need
 * not be listed, and have to keep their scheme: they are always exposed, as `ui://trunkline/{server}/{rest}`
 * (decision 056).
 */
const ANY_SCHEME = 'trunkline://';
const OWN_SCHEMES = ['ui://', 'skill://'];
const GATEWAY = 'trunkline/';

/** Whether the gateway reads this as a wrapped URI: as an address at the server that it names, and at no other. */
export function isWrapped(uri: string): boolean {
  return uri.startsWith(prefixOf(ownScheme(uri)));
}

/** Whether a server's URI is exposed wrapped though no other has it: one that only its server knows, or that reads as wrapped. */
export function isAlwaysWrapped(uri: string): boolean {
  return ownScheme(uri) !== null || isWrapped(uri);
}

export function wrapUri(server: string, uri: string): string {
  const scheme = ownScheme(uri);
  return `${prefixOf(scheme)}${server}/${uri.slice(scheme?.length ?? 0)}`;
}

export function unwrapUri(uri: string): { readonly server: string; readonly uri: string } | null {
  if (!isWrapped(uri)) return null;
  const scheme = ownScheme(uri);
  const start = prefixOf(scheme).length;
  const slash = uri.indexOf('/', start);
  return slash <= start ? null : { server: uri.slice(start, slash), uri: (scheme ?? '') + uri.slice(slash + 1) };
}

function prefixOf(scheme: string | null): string {
  return scheme === null ? ANY_SCHEME : scheme + GATEWAY;
}

function ownScheme(uri: string): string | null {
  return OWN_SCHEMES.find((scheme) => uri.startsWith(scheme)) ?? null;
}
