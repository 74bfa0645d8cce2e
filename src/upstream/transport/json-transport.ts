import { challengeIn } from './http-refusal.ts';
import { type HttpPost, PostTransport } from './post-transport.ts';
import type { NegotiatedFacts, Outgoing } from './transport.ts';

/**
 * Plain JSON-RPC over POST, the least a server can offer: one POST per message, a JSON reply or none, no session, no
 * stream, nothing of the server's own accord. Any status but a success is a loss with the words
 * `mcp http status N: body`. Credentials that are not accepted (401) end the connection.
 */
export class JsonTransport extends PostTransport {
  readonly kind = 'json';
  readonly takesStreams = false;

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request, headers } = outgoing;
    if (this.state !== 'open') this.refuse(request);
    else if (request > 0) this.post(parts, outgoing);
    else this.side.post(parts, this.heads.post(headers), headers ?? [], () => {});
  }

  /** This wire has no session to resume. The revision is repeated where it is one that asks for it. */
  negotiated(facts: NegotiatedFacts): void {
    if (this.state === 'open' && facts.era === 'stateless') this.heads.revision(facts.revision);
  }

  refused(post: HttpPost, body: Buffer): void {
    if (!this.take(post)) return;
    const headers = post.headers!;
    this.receiver.lost(post.request, this.refusal(post.status, headers, body));
    if (post.status === 401) this.end({ kind: 'auth_required', challenge: challengeIn(headers) });
  }

  protected stop(): void {
    this.loseAll('the connection ended before the answer');
  }
}
