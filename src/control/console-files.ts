import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { RequestContext } from '../http/listener/request-context.ts';
import type { RouteTable } from '../http/listener/route-table.ts';
import { PAGE_TYPE, plainPage } from '../http/plain-page.ts';

/** The package is two levels up, in the source and in the bundle. */
const FOLDER = join(import.meta.dirname, '../../dist/ui');
const TYPES: Readonly<Record<string, string>> = {
  '.html': PAGE_TYPE,
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
const HEADERS = [
  ...['Referrer-Policy', 'no-referrer'],
  ...['Cross-Origin-Opener-Policy', 'same-origin'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
  'Content-Security-Policy',
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; media-src data:; font-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
];
/** Names of assets contain a digest of their content. */
const ASSET = ['Cache-Control', 'public, max-age=31536000, immutable'];
const PAGE = ['Cache-Control', 'no-cache'];
const SMALL_BYTES = 1_024;

interface ConsoleFile {
  readonly type: string;
  readonly bytes: Buffer;
  /** null if compression is not worthwhile. */
  readonly gzip: Buffer | null;
  readonly etag: string;
}

/**
 * Serves the page of the console and its assets. They contain no secret, so any client may load them. Reads a file on its first
 * request and keeps it; serves only names that the build folder lists.
 */
export class ConsoleFiles {
  readonly #kept = new Map<string, ConsoleFile>();

  register(routes: RouteTable): void {
    routes.add('/', { GET: (context) => this.#page(context) });
    routes.add(
      '/assets/{name}',
      { GET: (context) => this.#send(context, 'assets', context.param, ASSET) },
      { param: /^[\w-]+(?:\.[\w-]+)*\.[a-z0-9]+$/ },
    );
  }

  #page(context: RequestContext): void {
    if (this.#file('.', 'index.html') !== null) {
      this.#send(context, '.', 'index.html', PAGE);
      return;
    }
    const text = 'This gateway runs from a checkout in which the console is not built. Run: npm run build';
    removeApiHeaders(context);
    context.answer(503, PAGE_TYPE, Buffer.from(plainPage('The console is not built', text)), [...HEADERS, ...PAGE]);
  }

  #send(context: RequestContext, folder: string, name: string, cache: readonly string[]): void {
    const file = this.#file(folder, name);
    if (file === null) {
      context.refuse({ status: 404, code: 'not_found', message: 'there is no such file; reload the page' });
      return;
    }
    const { type, bytes, gzip, etag } = file;
    removeApiHeaders(context);
    const headers = [...HEADERS, ...cache, 'ETag', etag, 'Vary', 'Accept-Encoding'];
    if (context.header('if-none-match') === etag) context.empty(304, headers);
    else if (gzip !== null && /\bgzip\b/.test(context.header('accept-encoding') ?? '')) {
      context.answer(200, type, gzip, [...headers, 'Content-Encoding', 'gzip']);
    } else context.answer(200, type, bytes, headers);
  }

  /** null if the build has no such file. */
  #file(folder: string, name: string): ConsoleFile | null {
    const path = join(FOLDER, folder, name);
    const kept = this.#kept.get(path);
    if (kept !== undefined) return kept;
    const type = TYPES[extname(name)];
    if (type === undefined || !namesIn(join(FOLDER, folder)).includes(name)) return null;
    const bytes = readFileSync(path);
    const gzip = bytes.length > SMALL_BYTES && extname(name) !== '.woff2' ? gzipSync(bytes) : null;
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
    const file = { type, bytes, gzip, etag };
    this.#kept.set(path, file);
    return file;
  }
}

/** Removes the headers of API answers. */
function removeApiHeaders(context: RequestContext): void {
  context.answerHeaders = [];
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
