import type { ScalarNode } from '../document/node.ts';
import type { Source, TextSpan } from '../problem/problem.ts';

/** One NATS server. `user` without `password` is a token. */
export interface NatsAddress {
  /** The URL without credentials. */
  readonly server: string;
  /** Decoded, as is `password`; empty if the address has none. */
  readonly user: string;
  readonly password: string;
  /** Values that logs must not contain, in every form in which they may occur. */
  readonly secrets: readonly string[];
}

interface StoreAddress {
  /** The URL for the PostgreSQL library. */
  readonly url: string;
  readonly secrets: readonly string[];
}

/** An unusable address. */
export interface BadAddress {
  /** Completes a sentence that begins with the address, such as "is no …". */
  readonly why: string;
  readonly secrets: readonly string[];
}

const UNENCODED = 'has a "/", "?" or "#" that is not percent-encoded';
const UNDECODABLE = 'has a "%" that begins no percent-encoded character';
const SCHEME = /^[a-z][a-z0-9+.-]{0,31}:\/\//i;
const HOST_AND_PORT = /^[\w.-]+:\d{1,5}$/;
/** The same, with a possible typo in the port. */
const NEARLY_HOST = /^(?:[a-z][a-z0-9+.-]{0,31}:\/\/)?[\w.-]+:[\d ]{1,8}$/i;
/** An `@` after what a URL takes as the end of the host: a character of the user or password ended the host too early. */
const LATE_AT = /^[^/?#]*\/\/[^/?#]*[/?#].*@/s;

export function readNatsAddress(text: string): NatsAddress | BadAddress {
  if (/,\s*(?:nats|tls):\/\//.test(text)) return bad(text, 'is more than one address of NATS: write a list of them');
  if (HOST_AND_PORT.test(text)) return bad(text, `lacks its scheme: nats://${text}`);
  const url = parsed(text, /^(?:nats|tls):$/, 'is no address of NATS');
  if ('why' in url) return url;
  // The library accepts only hosts that are valid in an http URL, and throws for others.
  const reachable = /^\/?$/.test(url.pathname) && url.search === '' && URL.canParse(`http://${url.host}`);
  if (!reachable) return bad(text, 'is no address of NATS');
  const user = decoded(url.username);
  const password = decoded(url.password);
  if (user === null || password === null) return bad(text, UNDECODABLE);
  const secrets = password === '' ? [user, url.username] : [password, url.password];
  return { server: `${url.protocol}//${url.host}`, user, password, secrets: present(secrets) };
}

/**
 * Returns the URL as parsed here, since the library repairs a URL with a blank or a stray `%` by encoding it again, which
 * changes a `%2F` in a password.
 */
export function readStoreAddress(text: string): StoreAddress | BadAddress {
  const url = parsed(text, /^postgres(?:ql)?:$/, 'is no address of PostgreSQL');
  if ('why' in url) return url;
  const { href, username, hostname, pathname, searchParams } = url;
  const password = decoded(url.password);
  const readable = ![decoded(username), password, decoded(hostname), decoded(pathname)].includes(null);
  if (!readable || /%(?![0-9a-f]{2})/i.test(href)) return bad(text, UNDECODABLE);
  return {
    url: href,
    secrets: present([text, href, password ?? '', url.password, ...searchParams.getAll('password')]),
  };
}

/** The address for messages: omits every part that may be a secret, also in an invalid address. */
export function shownAddress(address: string): string {
  let shown = '';
  let from = 0;
  for (const { start, end } of hiddenParts(address)) {
    shown += `${address.slice(from, start)}…`;
    from = end;
  }
  return shown + address.slice(from);
}

/** Masks the same parts in the lines of the file that problems show; general masking misses passwords with a `/`. */
export function maskAddress(source: Source, { text, span }: ScalarNode): void {
  const written = source.text.slice(span.start, span.end);
  const at = written.indexOf(text);
  // With escapes the offsets differ, so the whole is masked.
  if (at < 0) source.mask(span);
  // A reference alone is no secret.
  else if (text.includes('@') || !text.includes('${')) {
    for (const { start, end } of hiddenParts(text)) {
      source.mask({ start: span.start + at + start, end: span.start + at + end });
    }
  }
}

/** In order. A password may extend to the last `@`, and a token may be anywhere in an address that cannot be parsed. */
function hiddenParts(address: string): readonly TextSpan[] {
  const scheme = SCHEME.exec(address)?.[0].length ?? 0;
  const at = address.lastIndexOf('@');
  const end = address.length;
  if (at < 0 && NEARLY_HOST.test(address)) return [];
  if (at < 0 && (scheme === 0 || !URL.canParse(address))) return spans([{ start: scheme, end }]);
  const tail = (at < 0 ? /[/?#]/ : /[?#]/).exec(address.slice(Math.max(at, scheme)));
  const rest = tail === null ? end : Math.max(at, scheme) + tail.index + 1;
  return spans([
    { start: scheme, end: at },
    { start: rest, end },
  ]);
}

function spans(parts: readonly TextSpan[]): readonly TextSpan[] {
  return parts.filter(({ start, end }) => start < end);
}

function parsed(text: string, scheme: RegExp, otherwise: string): URL | BadAddress {
  if (LATE_AT.test(text)) return bad(text, UNENCODED);
  const url = URL.parse(text);
  if (url === null || !scheme.test(url.protocol) || url.hostname === '') return bad(text, otherwise);
  return url.href.includes('#') ? bad(text, UNENCODED) : url;
}

/** Without an `@` nothing is known to be a secret, and a host must stay readable in logs. */
function bad(text: string, why: string): BadAddress {
  const at = text.lastIndexOf('@');
  if (at < 0) return { why, secrets: [] };
  const userInfo = text.slice(SCHEME.exec(text)?.[0].length ?? 0, at);
  const colon = userInfo.indexOf(':');
  return { why, secrets: colon < 0 ? [text] : present([text, userInfo, userInfo.slice(colon + 1)]) };
}

/** null if a `%` begins no encoded character. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function present(texts: readonly string[]): readonly string[] {
  return texts.filter((text) => text !== '');
}
