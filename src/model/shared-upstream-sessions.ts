import type { UpstreamSessionRecord } from './ports.ts';

/** Which upstream HTTP session: of a server as it is defined, under the digest of a session key. */
export interface SessionPlace {
  readonly server: string;
  /** The connection digest of the definition. */
  readonly identity: string;
  readonly key: string;
}

/** An open session. */
export interface OpenedSession {
  readonly kind: 'open';
  readonly record: UpstreamSessionRecord;
  /** Tells it from those before and after it under the same key. */
  readonly generation: string;
}

/** Leave to open the session, given to one at a time. Ends with one of the two. */
export interface SessionLock {
  readonly kind: 'lock';
  /** It takes the place of one that is lost. */
  readonly replaces: boolean;
  /** Resolves with its generation. Rejects with GatewayError when another one has had to take over. */
  opened(record: UpstreamSessionRecord): Promise<string>;
  /** Nothing was opened, or nothing that others could use. */
  failed(): Promise<void>;
}

/** A connection that uses such a session. */
export interface SessionMember {
  /** It listens already, because it has opened the session: what the first call makes the server say is heard. */
  readonly listens: boolean;
  /** The session is of this generation from now on, and still the same. */
  renamed(generation: string): void;
  /**
   * Listens to the server's own stream from now on. `after`: the last event that another node has heard; null where that
   * is not known. `gap`: messages of the server may have been missed.
   */
  listen(after: string | null, gap: boolean): void;
  /** Does not listen any more. Returns the last event that it has heard; null for none with an id. */
  silence(): string | null;
  /** The nodes were apart, and another one's session is in this one's place. */
  replaced(): void;
}

/**
 * Upstream HTTP sessions as all nodes of a cluster have them: opened by one, used from all, listened to by one, ended once.
 * Implemented by `cluster/`; a lone node has none and needs none.
 */
export interface SharedUpstreamSessions {
  /**
   * The session there is, or the turn to open it; `gone` is the generation that its server does not know any more. Waits
   * while another one opens it, as long as `wanted`. Rejects with GatewayError NOT_SENT.
   */
  enter(place: SessionPlace, gone: string | null, wanted: () => boolean): Promise<OpenedSession | SessionLock>;
  /** Whether it is open. Never rejects. */
  known(place: SessionPlace): Promise<boolean>;
  /** A connection uses it from now on. */
  join(place: SessionPlace, member: SessionMember): void;
  /** It does no more. */
  leave(place: SessionPlace, member: SessionMember): void;
  /**
   * It is to end: of this generation, or (null) whichever there is. The caller that gets its record ends it at the server; null for
   * all others. `withServer`: because the server is to go from this node. Never rejects.
   */
  end(place: SessionPlace, generation: string | null, withServer: boolean): Promise<UpstreamSessionRecord | null>;
}
