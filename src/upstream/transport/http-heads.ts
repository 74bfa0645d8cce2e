import { HeaderBlock } from '../../http/client/header-block.ts';

const SESSION_ID = /^[\x21-\x7e]{1,1024}$/;

/** Whether a server's session id is one we take and repeat: visible ASCII (2025-11-25, session management). */
export function isSessionId(text: string): boolean {
  return SESSION_ID.test(text);
}

/**
 * The header blocks of one connection: declared headers, what we accept, session and revision. Each is encoded when it
 * is first needed after its state changed, so that a call adds no more than its own few headers, and a connection holds
 * no block that nobody asked for.
 */
export class HttpHeads {
  readonly #declared: readonly string[];
  readonly #accept: string;
  #sessionId: string | null = null;
  #revision: string | null = null;
  #post: HeaderBlock | null = null;
  #postWithoutRevision: HeaderBlock | null = null;
  #get: HeaderBlock | null = null;

  /** Throws TypeError when a declared header is not one (see `HeaderBlock`). */
  constructor(declared: readonly string[], accept: string) {
    this.#declared = declared;
    this.#accept = accept;
    this.#post = new HeaderBlock(this.#postPairs(false));
  }

  get sessionId(): string | null {
    return this.#sessionId;
  }

  session(id: string | null): void {
    this.#sessionId = id;
    this.#changed();
  }

  /** `MCP-Protocol-Version` of everything that follows; null for revisions that do not know the header. */
  revision(revision: string | null): void {
    this.#revision = revision;
    this.#changed();
  }

  /** For a POST with these extra headers; a revision of its own replaces the connection's. */
  post(extra: readonly string[] | null): HeaderBlock {
    if (extra !== null && this.#revision !== null) {
      for (let i = 0; i < extra.length; i += 2) {
        const name = extra[i]!;
        if (name.length === 20 && name.toLowerCase() === 'mcp-protocol-version') {
          this.#postWithoutRevision ??= new HeaderBlock(this.#postPairs(false));
          return this.#postWithoutRevision;
        }
      }
    }
    this.#post ??= new HeaderBlock(this.#postPairs(true));
    return this.#post;
  }

  /** For GET (event stream) and DELETE. */
  get stream(): HeaderBlock {
    this.#get ??= new HeaderBlock([...this.#declared, 'Accept', 'text/event-stream', ...this.#own(true)]);
    return this.#get;
  }

  #postPairs(withRevision: boolean): string[] {
    return [...this.#declared, 'Content-Type', 'application/json', 'Accept', this.#accept, ...this.#own(withRevision)];
  }

  #own(withRevision: boolean): string[] {
    const session = this.#sessionId === null ? [] : ['Mcp-Session-Id', this.#sessionId];
    if (withRevision && this.#revision !== null) session.push('MCP-Protocol-Version', this.#revision);
    return session;
  }

  #changed(): void {
    this.#post = null;
    this.#postWithoutRevision = null;
    this.#get = null;
  }
}
