import type { Principal } from './principal.ts';
import type { Revision } from './revision.ts';

/**
 * What a client told us of itself, as an upstream may be told in turn. Stateful clients say it once, at
 * `initialize`; stateless ones with every request. The JSON texts are the client's own bytes.
 */
export interface ClientProfile {
  readonly principal: Principal;
  /** The client's `Mcp-Session-Id`; null for stateless clients. Never sent upstream. */
  readonly sessionId: string | null;
  /** Its session ends with one stream or pipe, and so with this process at the latest. */
  readonly passing?: boolean;
  readonly revision: Revision;
  /** The declared capabilities, as written. Presented upstream as they are: not more, not less (proto:S5). */
  readonly capabilities: string;
  /** Digest of the canonical capabilities: tool lists depend on them, so catalogues and connections are keyed by it. */
  readonly fingerprint: string;
  /** The declared `clientInfo`, as written; null where the client sent none. */
  readonly info: string | null;
  /**
   * The least severe log message it wants to hear of: a session by its last `logging/setLevel`, a stateless request by
   * its `_meta`. null where it asked for none: then a session hears what the server chooses, a stateless client nothing.
   */
  readonly logLevel: string | null;
  /** Value of the header that the operator named as isolation handle for stateless clients; null without one. */
  readonly handle: string | null;
}
