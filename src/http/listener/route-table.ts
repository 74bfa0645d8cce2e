import { type Refusal, type RefusalRenderer, renderRefusal } from '../context/refusal.ts';
import type { RequestContext } from './request-context.ts';

/** Answers the request through the context, now or later. An exception becomes a 500. */
export type Handler = (context: RequestContext) => void;

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

export interface RouteOptions {
  /** How refusals on this route are rendered; `{"error":{…}}` by default. */
  readonly render?: (refusal: Refusal) => string;
  /** Longest body, below or above the listener's own limit. */
  readonly maxBodyBytes?: number;
  /** POSTs may be refused with 503 under overload. */
  readonly sheds?: boolean;
  /** Pattern of `{name}`, if that is more than a segment. The value is not decoded. */
  readonly param?: RegExp;
}

export interface Route {
  readonly handlers: ReadonlyMap<string, Handler>;
  /** Value of the `Allow` header. */
  readonly allow: string;
  readonly render: RefusalRenderer | null;
  readonly maxBodyBytes: number | null;
  readonly sheds: boolean;
}

export interface RouteMatch {
  readonly route: Route;
  /** The value of `{name}`; empty for routes without one. */
  readonly param: string;
}

interface Pattern {
  readonly prefix: string;
  readonly suffix: string;
  readonly param: RegExp | null;
  readonly route: Route;
}

/** Maps paths to routes: exact paths, and patterns with one `{name}` segment. Compares the path as received. */
export class RouteTable {
  readonly #exact = new Map<string, RouteMatch>();
  readonly #patterns: Pattern[] = [];
  /** Cache of the last look-up, because clients repeat their paths. */
  #lastPath = '';
  #lastMatch: RouteMatch | null = null;
  /** How refusals of unknown paths are rendered: as on the first added route with a renderer of its own. */
  render: RefusalRenderer = renderRefusal;

  /** Adds a route; replaces one with the same path. */
  add(path: string, handlers: Readonly<Partial<Record<Method, Handler>>>, options: RouteOptions = {}): void {
    this.#lastPath = '';
    this.#lastMatch = null;
    const methods = Object.keys(handlers);
    if (options.render !== undefined && this.render === renderRefusal) this.render = options.render;
    const route: Route = {
      handlers: new Map(Object.entries(handlers)),
      allow: methods.join(', '),
      render: options.render ?? null,
      maxBodyBytes: options.maxBodyBytes ?? null,
      sheds: options.sheds ?? false,
    };
    const open = path.indexOf('{');
    if (open < 0) {
      this.#exact.set(path, { route, param: '' });
      return;
    }
    const pattern = {
      prefix: path.slice(0, open),
      suffix: path.slice(path.indexOf('}') + 1),
      param: options.param ?? null,
      route,
    };
    const at = this.#patterns.findIndex((each) => each.prefix === pattern.prefix && each.suffix === pattern.suffix);
    if (at < 0) this.#patterns.push(pattern);
    else this.#patterns[at] = pattern;
  }

  match(path: string): RouteMatch | null {
    if (path === this.#lastPath) return this.#lastMatch;
    const match = this.#find(path);
    if (match === null) return null;
    this.#lastPath = path;
    this.#lastMatch = match;
    return match;
  }

  #find(path: string): RouteMatch | null {
    const exact = this.#exact.get(path);
    if (exact !== undefined) return exact;
    for (const { prefix, suffix, param: allowed, route } of this.#patterns) {
      if (path.length <= prefix.length + suffix.length || !path.startsWith(prefix) || !path.endsWith(suffix)) continue;
      const param = path.slice(prefix.length, path.length - suffix.length);
      if (allowed?.test(param) ?? isSegment(param)) return { route, param };
    }
    return null;
  }
}

/** Longest accepted request target, path and query together. */
export const MAX_TARGET_BYTES = 8 * 1024;

const SEGMENT = /^[A-Za-z0-9._~-]{1,255}$/;
const PLAIN_PATH = /^(?:\/[A-Za-z0-9._~!$&'()*+,;=:@-]*)+$/;
const TRAVERSAL = /\/\.{1,2}(?:\/|$)|\/\//;

/**
 * Why a path without a route is malformed rather than unknown; null for a plain one. Paths are never decoded or normalised:
 * what would need that (`%2f`, `..`, `//`, NUL) is refused.
 */
export function pathProblem(path: string): string | null {
  if (!path.startsWith('/')) return 'the request target is not a path on this server';
  if (!PLAIN_PATH.test(path)) return 'the path has a character that no path of this server has';
  if (TRAVERSAL.test(path)) return 'the path has empty or dot segments';
  return null;
}

/** Whether the text is a path segment that can be a name. */
function isSegment(text: string): boolean {
  return SEGMENT.test(text) && text !== '.' && text !== '..';
}
