import type { UpstreamSessionRecord } from './ports.ts';

/** Which upstream HTTP session: of a server as it is defined, under the digest of a session key. */
export interface SessionPlace {
  readonly server: string;
  /** The connection digest of the definition. */
  readonly identity: string;
  readonly key: string;
}

export interface OpenedSession {
  readonly kind: 'open';
  readonly record: UpstreamSessionRecord;
  /** Tells it from those before and after it under the same key. */
  readonly generation: string;
}

/** Leave to open the session, given to one at a time. Ends with one of the two. */
export interface SessionLock {
  readonly kind: 'lock';
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
  /** Listens to the server's stream after this event (null: not known). `gap`: messages may have been missed. */
  listen(after: string | null, gap: boolean): void;
  /** Does not listen any more. Returns the last event that it has heard; null for none with an id. */
  silence(): string | null;
  /** The nodes were apart, and another one's session is in this one's place. */
  replaced(): void;
}

/** Upstream HTTP sessions of a cluster: one node opens and listens, all use them. Absent without a cluster. */
export interface SharedUpstreamSessions {
  /**
   * The open session, or leave to open it; `gone`: the generation that the server no longer knows. Waits for another
   * opener while `wanted`. Rejects with GatewayError NOT_SENT.
   */
  enter(place: SessionPlace, gone: string | null, wanted: () => boolean): Promise<OpenedSession | SessionLock>;
  /** Whether it is open. Never rejects. */
  known(place: SessionPlace): Promise<boolean>;
  join(place: SessionPlace, member: SessionMember): void;
  leave(place: SessionPlace, member: SessionMember): void;
  /**
   * Ends this generation, or any (null). One caller gets the record and ends it at the server, all others null.
   * `withServer`: the server leaves this node. Never rejects.
   */
  end(place: SessionPlace, generation: string | null, withServer: boolean): Promise<UpstreamSessionRecord | null>;
}
