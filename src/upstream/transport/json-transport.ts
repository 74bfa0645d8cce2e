import type { HttpClientPort } from '../../http/client/client-port.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { sweptDefinition } from '../../model/swept-definition.ts';
import type { HttpPost } from './http-post.ts';
import { refusalError } from './http-refusal.ts';
import { HttpReplies, type RepliesOwner } from './http-replies.ts';
import { HttpSideRequests } from './http-side-requests.ts';
import {
  clientFor,
  declaredHeaders,
  HTTP_LIMITS,
  HttpHeads,
  type HttpTransportOptions,
  parseServerUrl,
} from './http-wire.ts';
import type { CloseReason, NegotiatedFacts, Outgoing, Transport, TransportReceiver } from './transport.ts';

const NONE: readonly string[] = [];

/**
 * Plain JSON-RPC over POST, the least a server can offer: one POST per message, a JSON reply or none, no session, no
 * stream, nothing of the server's own accord. Any status but a success is a loss with the words
 * `mcp http status N: body`. Credentials that are not accepted (401) end the connection.
 */
export class JsonTransport implements Transport, RepliesOwner {
  readonly kind = 'json';
  readonly pid = null;
  readonly streamPerRequest = true;
  readonly #options: HttpTransportOptions;
  readonly #secrets: readonly string[];
  #receiver!: TransportReceiver;
  #client!: HttpClientPort;
  #heads!: HttpHeads;
  #side!: HttpSideRequests;
  #replies!: HttpReplies;
  #state: 'new' | 'open' | 'dead' | 'closed' = 'new';
  #closing: Promise<void> | null = null;

  constructor(options: HttpTransportOptions) {
    this.#options = options;
    this.#secrets = sweptDefinition(options.spec).secrets;
  }

  async open(receiver: TransportReceiver): Promise<void> {
    const { server, spec, clock, random, maxMessageBytes } = this.#options;
    if (this.#state !== 'new') throw this.#error('NOT_SENT', 'the connection was opened before');
    const url = parseServerUrl(server, spec.url);
    const heads = new HttpHeads(declaredHeaders(server, spec), 'application/json');
    const client = clientFor(this.#options, url);
    const path = url.pathname + url.search;
    const limits = { ...HTTP_LIMITS, ...this.#options.limits };
    const streams = { client, path, block: () => heads.stream, clock, random, limits, maxMessageBytes };
    this.#receiver = receiver;
    this.#client = client;
    this.#heads = heads;
    this.#side = new HttpSideRequests(client, path, heads, clock);
    this.#replies = new HttpReplies(this, { ...streams, server, takesStreams: false, resumable: () => false });
    this.#state = 'open';
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request, headers } = outgoing;
    if (this.#state !== 'open') {
      if (request > 0 && this.#state === 'dead') {
        this.#receiver.lost(request, this.#error('NOT_SENT', 'the connection has ended'));
      }
      return;
    }
    const block = this.#heads.post(headers);
    if (request > 0) this.#replies.start(parts, outgoing, block, headers ?? NONE, null);
    else this.#side.post(parts, block, headers ?? NONE, () => {});
  }

  abandon(request: number): void {
    if (this.#state === 'open') this.#replies.abandon(request);
  }

  /** This wire has no session to resume. The revision is repeated where it is one that asks for it. */
  negotiated(facts: NegotiatedFacts): void {
    if (this.#state === 'open' && facts.era === 'stateless') this.#heads.revision(facts.revision);
  }

  stderrTail(): string {
    return '';
  }

  close(how: CloseReason): Promise<void> {
    this.#closing ??= this.#close(how);
    return this.#closing;
  }

  async #close(how: CloseReason): Promise<void> {
    const wasOpen = this.#state === 'open';
    if (wasOpen) this.#loseAll();
    this.#state = 'closed';
    if (!wasOpen) return;
    const { limits } = this.#options;
    if (how !== 'interrupt') await this.#side.finish(false, limits?.closeMs ?? HTTP_LIMITS.closeMs);
    this.#side.stop();
    this.#client.close();
  }

  received(bytes: Buffer, request: number): void {
    this.#receiver.received(bytes, request);
  }

  lost(request: number, error: GatewayError): void {
    this.#receiver.lost(request, error);
  }

  refused(post: HttpPost, body: Buffer): void {
    if (!this.#replies.take(post)) return;
    const { server, clock } = this.#options;
    const headers = post.headers!;
    const context = { server, secrets: this.#secrets, wallMs: clock.wall() };
    this.#receiver.lost(post.request, refusalError(context, post.status, headers, body));
    if (post.status !== 401 || this.#state !== 'open') return;
    this.#loseAll();
    this.#side.stop();
    this.#client.close();
    this.#receiver.closed({ kind: 'auth_required', challenge: headers.get('www-authenticate') ?? null });
  }

  began(): void {}

  notResumed(): void {}

  settled(): void {}

  #loseAll(): void {
    this.#state = 'dead';
    for (const request of this.#replies.stop()) {
      this.#receiver.lost(request, this.#error('UNKNOWN', 'the connection ended before the answer'));
    }
  }

  #error(code: 'NOT_SENT' | 'UNKNOWN', words: string): GatewayError {
    const { server } = this.#options;
    return new GatewayError(code, `${server}: ${words}`, { server });
  }
}
