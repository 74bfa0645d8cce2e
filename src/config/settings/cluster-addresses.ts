import type { ScalarNode } from '../document/node.ts';
import type { Source, TextSpan } from '../problem/problem.ts';

/** One server of NATS. `user` without `password` is a token. */
export interface NatsAddress {
  /** Without credentials. */
  readonly server: string;
  /** Decoded, as `password` is; empty where the address says none. */
  readonly user: string;
  readonly password: string;
  /** What no log may show, in every form in which it may turn up. */
  readonly secrets: readonly string[];
}

interface StoreAddress {
  /** As the library of PostgreSQL gets it. */
  readonly url: string;
  readonly secrets: readonly string[];
}

/** An address that cannot be used. */
export interface BadAddress {
  /** Goes on after the address: "is no …". */
  readonly why: string;
  readonly secrets: readonly string[];
}

const UNENCODED = 'has a "/", "?" or "#" that is not percent-encoded';
const UNDECODABLE = 'has a "%" that begins no percent-encoded character';
const SCHEME = /^[a-z][a-z0-9+.-]{0,31}:\/\//i;
const HOST_AND_PORT = /^[\w.-]+:\d{1,5}$/;
/** The same with a typo in the port. */
const NEARLY_HOST = /^(?:[a-z][a-z0-9+.-]{0,31}:\/\/)?[\w.-]+:[\d ]{1,8}$/i;
/** An `@` after the end of what a URL takes for the host: the user or password before it has ended that too soon. */
const LATE_AT = /^[^/?#]*\/\/[^/?#]*[/?#].*@/s;

export function readNatsAddress(text: string): NatsAddress | BadAddress {
  if (/,\s*(?:nats|tls):\/\//.test(text)) return bad(text, 'is more than one address of NATS: write a list of them');
  if (HOST_AND_PORT.test(text)) return bad(text, `lacks its scheme: nats://${text}`);
  const url = parsed(text, /^(?:nats|tls):$/, 'is no address of NATS');
  if ('why' in url) return url;
  // The library takes hosts only that could stand in an address of the web, and throws at others.
  const reachable = /^\/?$/.test(url.pathname) && url.search === '' && URL.canParse(`http://${url.host}`);
  if (!reachable) return bad(text, 'is no address of NATS');
  const user = decoded(url.username);
  const password = decoded(url.password);
  if (user === null || password === null) return bad(text, UNDECODABLE);
  const secrets = password === '' ? [user, url.username] : [password, url.password];
  return { server: `${url.protocol}//${url.host}`, user, password, secrets: present(secrets) };
}

/**
 * The address is handed on as it was read here. The library mends one with a blank or a stray `%` in it by encoding it
 * once more, and `%2F` in a password is something else then.
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

/** The address as a message may show it: whatever may be a secret is left out, however it is mistaken. */
export function shownAddress(address: string): string {
  let shown = '';
  let from = 0;
  for (const { start, end } of hiddenParts(address)) {
    shown += `${address.slice(from, start)}…`;
    from = end;
  }
  return shown + address.slice(from);
}

/** Stars out the same in the file, whose lines problems show: there only passwords without a `/` are known by their looks. */
export function maskAddress(source: Source, { text, span }: ScalarNode): void {
  const written = source.text.slice(span.start, span.end);
  const at = written.indexOf(text);
  // With escapes in it, no part of it can be found.
  if (at < 0) source.mask(span);
  // A reference without anything else is no secret.
  else if (text.includes('@') || !text.includes('${')) {
    for (const { start, end } of hiddenParts(text)) {
      source.mask({ start: span.start + at + start, end: span.start + at + end });
    }
  }
}

/** In order. A part of a password may be anywhere up to the last `@`; a token, anywhere in what cannot be read. */
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

/** Without an `@` nothing in it is known to be a secret, and a host must stay readable in logs. */
function bad(text: string, why: string): BadAddress {
  const at = text.lastIndexOf('@');
  if (at < 0) return { why, secrets: [] };
  const userInfo = text.slice(SCHEME.exec(text)?.[0].length ?? 0, at);
  const colon = userInfo.indexOf(':');
  return { why, secrets: colon < 0 ? [text] : present([text, userInfo, userInfo.slice(colon + 1)]) };
}

/** Null where a `%` begins no encoded character. */
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
