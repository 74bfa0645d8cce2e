import { hash } from 'node:crypto';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Endpoint } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import { ExchangeList } from './client-exchange.ts';
import type { DeclaredClient } from './initialize.ts';
import type { LoggedStream } from './logged-stream.ts';
import { PendingAsks } from './pending-asks.ts';

/** Streams that a GET opened, and answers to a POST. */
type StreamKind = 'g' | 'p';

/** An answer under way as SSE, which its client may come back to. */
export interface ResumableReply {
  readonly stream: LoggedStream | null;
  /** Ends the connection but not the calls. */
  hangUp(): void;
}

/** The way to a session's client outside any call: its GET stream, its one SSE stream, its pipe. */
export interface SessionChannel {
  /** Whether a client listens at this moment. */
  readonly open: boolean;
  deliver(notification: Message, server?: string): void;
  ask(request: Message, server?: string): Promise<Message>;
  /** Notifies the client that a question it was asked is cancelled. */
  calledOff(cancellation: Buffer): void;
  /** Ends the streams; the session is over or the gateway stops. */
  close(): void;
}

/**
 * A stateful client conversation as this process holds it. There may be thousands, most of them idle, so it is a
 * plain object; what only a busy session needs is made when it is needed. What has to survive the process is the
 * `SessionRecord` that `SessionTable` writes from it.
 */
export class ClientSession {
  /** What it is known by inside and on disk: a digest, with which no one can use the session. */
  readonly id: string;
  /** What the client presents, its `Mcp-Session-Id`. Kept in memory only. */
  readonly mcpSessionId: string;
  readonly endpoint: Endpoint;
  /** False for sessions that live and die with one stream or pipe. */
  readonly lasting: boolean;
  /** Wall clock. */
  readonly createdAt: number;
  client: ClientProfile;
  /** The client has said who it is. */
  introduced: boolean;
  initialized = false;
  /** Clock readings: when the client was last heard of, and the value the stored record knows. */
  lastUsed: number;
  savedUse: number;
  readonly exchanges = new ExchangeList();
  channel: SessionChannel | null = null;
  /** Answers under way as SSE, by the names of their streams, so that a client can come back to them. */
  replies: Map<string, ResumableReply> | null = null;
  ended = false;
  /** It was opened by another process, or by this one before a restart. */
  restored = false;
  #asks: PendingAsks | null = null;
  #streams = 0;
  #tag = '';

  constructor(
    client: ClientProfile,
    mcpSessionId: string,
    endpoint: Endpoint,
    lasting: boolean,
    createdAt: number,
    now: number,
  ) {
    this.id = client.sessionId!;
    this.mcpSessionId = mcpSessionId;
    this.client = client;
    this.endpoint = endpoint;
    this.lasting = lasting;
    this.createdAt = createdAt;
    this.lastUsed = now;
    this.savedUse = now;
    this.introduced = lasting;
  }

  /** Takes what the client says of itself, where the session was there before its `initialize`. */
  introduce(client: DeclaredClient, fingerprint: string): void {
    const { revision, capabilities, info } = client;
    this.client = { ...this.client, revision, capabilities, fingerprint, info };
    this.introduced = true;
  }

  /** What the client wants to hear of from now on. */
  set logLevel(logLevel: string) {
    this.client = { ...this.client, logLevel };
  }

  /** Whether the session exists for this caller on this endpoint; for all others it does not. */
  belongsTo(principal: Principal, endpoint: Endpoint): boolean {
    return !this.ended && this.client.principal.id === principal.id && this.endpoint.path === endpoint.path;
  }

  /** Rights can change while a session lives: the caller of the moment is the one that counts. */
  useAs(principal: Principal, now: number): void {
    this.lastUsed = now;
    if (this.client.principal !== principal) this.client = { ...this.client, principal };
  }

  /** Its servers get these headers from now on. */
  forwards(forwarded: ClientProfile['forwarded']): void {
    const before = this.client.forwarded;
    if (before === forwarded || JSON.stringify(before) === JSON.stringify(forwarded)) return;
    this.client = { ...this.client, forwarded };
  }

  /** Nothing is under way and no stream listens. */
  get idle(): boolean {
    return this.exchanges.size === 0 && this.channel?.open !== true;
  }

  asks(prefix: string, clock: Clock): PendingAsks {
    this.#asks ??= new PendingAsks(prefix, clock);
    return this.#asks;
  }

  get openAsks(): PendingAsks | null {
    return this.#asks;
  }

  /**
   * A name for another stream of this session, unique over all sessions and processes. It begins with a digest of the
   * session's id, so that an event id names its session even when the event has left the log.
   */
  nextStream(prefix: string, kind: StreamKind): string {
    return `${this.streamHead(kind)}${prefix}${(++this.#streams).toString(36)}`;
  }

  /** Whether the event log may have something of it. */
  get mayHaveEvents(): boolean {
    return this.restored || this.#streams > 0;
  }

  /** What all stream names of this kind begin with. */
  streamHead(kind: StreamKind): string {
    this.#tag ||= hash('sha256', this.id).slice(0, 8);
    return `${kind}${this.#tag}.`;
  }
}
