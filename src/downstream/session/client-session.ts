import { hash } from 'node:crypto';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Endpoint } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import { ExchangeList } from './client-exchange.ts';
import type { DeclaredClient } from './initialize.ts';
import type { LoggedStream } from './logged-stream.ts';
import { PendingAsks } from './pending-asks.ts';

/** Streams opened by a GET (`g`), and answers to a POST (`p`). */
type StreamKind = 'g' | 'p';

/** Streams of this process. A session may be put away and loaded again, and must not name two streams alike. */
let streams = 0;
/** As long as the event log keeps events for a client to resume from. */
export const RETURN_MS = 5 * 60_000;

/** An answer that is being streamed as SSE and that its client can resume. */
export interface ResumableReply {
  readonly stream: LoggedStream | null;
  /** Ends the stream. Its calls are not cancelled by this. */
  hangUp(): void;
  /** Ends the connection; its client can resume the stream and gets the later messages. */
  disconnect(): void;
}

/** The way to a session's client outside calls: its GET streams, its only SSE stream, or its pipe. */
export interface SessionChannel {
  /** Whether a client listens now. */
  readonly open: boolean;
  /** Whether the client had a stream open, and has none now; absent where the session ends with its stream. */
  readonly disconnected?: boolean;
  deliver(notification: Message, server?: string): void;
  ask(request: Message, server?: string): Promise<Message>;
  /** Notifies the client that a request of the gateway is cancelled. */
  sendCancellation(cancellation: Buffer): void;
  /** Ends the streams: the session has ended, or the gateway stops. */
  close(): void;
}

/**
 * A stateful client session as this process holds it. There may be thousands, most of them idle, so it is a plain object
 * that creates what only a busy session needs on demand. `SessionTable` writes what has to survive the process as a
 * `SessionRecord`.
 */
export class ClientSession {
  /** Its internal and stored id: a digest of `mcpSessionId`, which gives no access to the session. */
  readonly id: string;
  /** The client's `Mcp-Session-Id`. Held in memory only. */
  readonly mcpSessionId: string;
  readonly endpoint: Endpoint;
  /** False for a session that begins and ends with one stream or pipe. */
  readonly persistent: boolean;
  /** Wall clock. */
  readonly createdAt: number;
  client: ClientProfile;
  /** The client has sent its `initialize`. */
  initializeReceived: boolean;
  initialized = false;
  /** Monotonic time of the client's last activity, and its value in the stored record. */
  lastUsed: number;
  savedUse: number;
  readonly exchanges = new ExchangeList();
  channel: SessionChannel | null = null;
  /** Answers being streamed as SSE, by stream name, so that a client can resume them. */
  replies: Map<string, ResumableReply> | null = null;
  ended = false;
  /** The session was opened by another process, or by an earlier process of this node. */
  restored = false;
  #asks: PendingAsks | null = null;
  #hasStreams = false;
  #tag = '';

  constructor(
    client: ClientProfile,
    mcpSessionId: string,
    endpoint: Endpoint,
    persistent: boolean,
    createdAt: number,
    now: number,
  ) {
    this.id = client.sessionId!;
    this.mcpSessionId = mcpSessionId;
    this.client = client;
    this.endpoint = endpoint;
    this.persistent = persistent;
    this.createdAt = createdAt;
    this.lastUsed = now;
    this.savedUse = now;
    this.initializeReceived = persistent;
  }

  /** Applies the client's `initialize`, for a session that began before it. */
  applyInitialize(client: DeclaredClient, fingerprint: string): void {
    const { revision, capabilities, info } = client;
    this.client = { ...this.client, revision, capabilities, fingerprint, info };
    this.initializeReceived = true;
  }

  /** The least severe log message that the client wants from now on. */
  set logLevel(logLevel: string) {
    this.client = { ...this.client, logLevel };
  }

  /** Whether the session exists for this caller on this endpoint; for all others it does not. */
  belongsTo(principal: Principal, endpoint: Endpoint): boolean {
    return !this.ended && this.client.principal.id === principal.id && this.endpoint.path === endpoint.path;
  }

  /** Rights can change during a session, so every request sets the current principal. */
  useAs(principal: Principal, now: number): void {
    this.lastUsed = now;
    if (this.client.principal !== principal) this.client = { ...this.client, principal };
  }

  /** Sets the headers that the session's servers get from now on. */
  forwards(forwarded: ClientProfile['forwarded']): void {
    const before = this.client.forwarded;
    if (before === forwarded || JSON.stringify(before) === JSON.stringify(forwarded)) return;
    this.client = { ...this.client, forwarded };
  }

  /** No call is in flight, no stream is open, and no question waits for the client's answer. */
  get idle(): boolean {
    return this.exchanges.size === 0 && this.channel?.open !== true && (this.#asks?.size ?? 0) === 0;
  }

  /** The client lost its last stream a moment ago, and may resume it. */
  mayReturn(now: number): boolean {
    return this.channel?.disconnected === true && now - this.lastUsed < RETURN_MS;
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
   * session's id, so that an event id names its session even after the event has left the log.
   */
  nextStream(prefix: string, kind: StreamKind): string {
    this.#hasStreams = true;
    return `${this.streamHead(kind)}${prefix}${(++streams).toString(36)}`;
  }

  /** Whether the event log may hold events of this session. */
  get mayHaveEvents(): boolean {
    return this.restored || this.#hasStreams;
  }

  /** The common prefix of all stream names of this kind. */
  streamHead(kind: StreamKind): string {
    this.#tag ||= hash('sha256', this.id).slice(0, 8);
    return `${kind}${this.#tag}.`;
  }
}
