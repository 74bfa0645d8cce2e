import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type { RequestContext } from '../http/listener/request-context.ts';
import type { RouteTable } from '../http/listener/route-table.ts';
import type { Clock } from '../model/clock.ts';
import { bareHost, isLoopbackHost, isPublicAddress } from '../model/host-address.ts';

/** Origins that a document may use, as the resource of an MCP App declares them. */
export interface AppSources {
  readonly connectDomains?: readonly string[] | undefined;
  readonly resourceDomains?: readonly string[] | undefined;
  readonly frameDomains?: readonly string[] | undefined;
}

interface AppDocument {
  readonly html: Buffer;
  readonly policy: string;
}

/** A console loads a document at once. Documents are dropped after DOCUMENT_TTL_MS, and the oldest ones above MAX_DOCUMENTS. */
const DOCUMENT_TTL_MS = 60_000;
const MAX_DOCUMENTS = 4;
/** Apps contain all their code: the official PDF viewer has 4.2 MiB. */
export const MOST_APP_BYTES = 8 * 1_024 * 1_024;
const ORIGIN = /^(?:https?|wss?):\/\/(\*\.)?([A-Za-z0-9.-]+)(?::\d{1,5})?$/;

/**
 * Documents of MCP Apps for frames of the console. Each has a secret address that works once. The `sandbox` directive of its
 * policy gives it an opaque origin, so that it shares nothing with the console.
 */
export class AppFrames {
  readonly #clock: Clock;
  readonly #documents = new Map<string, AppDocument>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the address, relative to the console. `html` has at most MOST_APP_BYTES. */
  add(html: string, sources: AppSources): string {
    const name = randomBytes(16).toString('base64url');
    this.#documents.set(name, { html: Buffer.from(html), policy: policyOf(sources) });
    for (const [oldest] of this.#documents) {
      if (this.#documents.size <= MAX_DOCUMENTS) break;
      this.#documents.delete(oldest);
    }
    this.#clock.after(DOCUMENT_TTL_MS, () => this.#documents.delete(name));
    return `app-frames/${name}`;
  }

  register(routes: RouteTable): void {
    routes.add('/app-frames/{name}', { GET: (context) => this.#serve(context) });
  }

  #serve(context: RequestContext): void {
    const found = this.#documents.get(context.param);
    this.#documents.delete(context.param);
    if (found === undefined) {
      context.refuse({
        status: 404,
        code: 'not_found',
        message: 'this document was shown already; open the app again',
      });
      return;
    }
    context.answerHeaders = [];
    context.answer(200, 'text/html; charset=utf-8', found.html, [
      ...['Content-Security-Policy', found.policy, 'Cache-Control', 'no-store'],
      ...['Referrer-Policy', 'no-referrer', 'X-Content-Type-Options', 'nosniff'],
      ...['Permissions-Policy', 'camera=(), microphone=(), geolocation=(), clipboard-write=()'],
    ]);
  }
}

/**
 * The restrictive policy of ext-apps, with the origins that the app declares. It allows eval, blob and data scripts: they run
 * in the origin of the document and under the same policy.
 */
function policyOf({ connectDomains, resourceDomains, frameDomains }: AppSources): string {
  const origins = (domains: readonly string[] = []): string => domains.filter(isPublicOrigin).join(' ');
  const from = origins(resourceDomains);
  return [
    'sandbox allow-scripts',
    "default-src 'none'",
    `script-src 'unsafe-inline' 'unsafe-eval' blob: data: ${from}`,
    'worker-src blob:',
    `style-src 'unsafe-inline' ${from}`,
    `img-src data: blob: ${from}`,
    `font-src data: ${from}`,
    `media-src data: blob: ${from}`,
    `connect-src ${origins(connectDomains) || "'none'"}`,
    `frame-src ${origins(frameDomains) || "'none'"}`,
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
  ].join('; ');
}

/** An app must not reach services of the operator's machine and network; `*.com` is as broad as `*`. */
function isPublicOrigin(origin: string): boolean {
  const [, wildcard, name] = ORIGIN.exec(origin) ?? [];
  // The URL parser normalizes addresses such as 0x7f.1 and 2130706433, as browsers do.
  if (name === undefined || !URL.canParse(`http://${name}`)) return false;
  const host = bareHost(new URL(`http://${name}`).hostname).replace(/\.$/, '');
  if (isIP(host) !== 0) return wildcard === undefined && isPublicAddress(host);
  return host.includes('.') && !isLoopbackHost(host) && !host.endsWith('.localhost');
}
