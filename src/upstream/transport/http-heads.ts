import { HeaderBlock } from '../../http/header-block.ts';

const SESSION_ID = /^[\x21-\x7e]{1,1024}$/;

/** Whether a server's session id is one we take and repeat: visible ASCII (2025-11-25, session management). */
export function isSessionId(text: string): boolean {
  return SESSION_ID.test(text);
}

/**
 * The header blocks of one connection, encoded anew only when its state changes: declared headers, what we accept,
 * session and revision. So a call adds no more than its own few headers.
 */
export class HttpHeads {
  readonly #declared: readonly string[];
  readonly #accept: string;
  #sessionId: string | null = null;
  #revision: string | null = null;
  #post!: HeaderBlock;
  #postWithoutRevision!: HeaderBlock;
  #get!: HeaderBlock;

  /** Throws TypeError when a declared header is not one (see `HeaderBlock`). */
  constructor(declared: readonly string[], accept: string) {
    this.#declared = declared;
    this.#accept = accept;
    this.#encode();
  }

  get sessionId(): string | null {
    return this.#sessionId;
  }

  session(id: string | null): void {
    this.#sessionId = id;
    this.#encode();
  }

  /** `MCP-Protocol-Version` of everything that follows; null for revisions that do not know the header. */
  revision(revision: string | null): void {
    this.#revision = revision;
    this.#encode();
  }

  /** For a POST with these extra headers; a revision of its own replaces the connection's. */
  post(extra: readonly string[] | null): HeaderBlock {
    if (extra === null || this.#revision === null) return this.#post;
    for (let i = 0; i < extra.length; i += 2) {
      const name = extra[i]!;
      if (name.length === 20 && name.toLowerCase() === 'mcp-protocol-version') return this.#postWithoutRevision;
    }
    return this.#post;
  }

  /** For GET (event stream) and DELETE. */
  get stream(): HeaderBlock {
    return this.#get;
  }

  #encode(): void {
    const session = this.#sessionId === null ? [] : ['Mcp-Session-Id', this.#sessionId];
    const revision = this.#revision === null ? [] : ['MCP-Protocol-Version', this.#revision];
    const post = [...this.#declared, 'Content-Type', 'application/json', 'Accept', this.#accept, ...session];
    this.#postWithoutRevision = new HeaderBlock(post);
    this.#post = revision.length === 0 ? this.#postWithoutRevision : new HeaderBlock([...post, ...revision]);
    this.#get = new HeaderBlock([...this.#declared, 'Accept', 'text/event-stream', ...session, ...revision]);
  }
}
