import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import type {
  Msg,
  NatsConnection,
  NodeConnectionOptions,
  ServerInfo,
  Subscription,
  TlsOptions,
} from '@nats-io/transport-node';
import type { Clock } from '../../model/clock.ts';
import type { NatsCredentials, NatsTls } from '../../model/desired-state.ts';
import { bareHost } from '../../model/host-address.ts';
import { scoped, unscoped } from '../subjects.ts';
import type { Wire, WireChange, WireMessage, WireStatus, WireTraffic } from '../wire.ts';
import { unlinkRequests } from './unlinked-requests.ts';

const MAX_PAYLOAD = 1024 * 1024;
const CONNECT_MS = 5_000;
/** How long closing a subscription waits for the server. */
const DRAIN_MS = 1_000;
const RETRY_MS = 250;
const JITTER_MS = RETRY_MS / 2;
/** Two unanswered pings end a dead connection. */
const PING_MS = 2_000;

interface Registered {
  readonly subject: string;
  readonly deliver: (message: WireMessage) => void;
  readonly queue: string | null;
  live: Subscription | null;
}

/** A connection to NATS that reconnects until closed. */
export class NatsWire implements Wire {
  readonly #core: NatsCore;
  readonly #options: NatsOptions;
  readonly #clock: Clock;
  readonly #registered = new Set<Registered>();
  readonly #listeners = new Set<(change: WireChange) => void>();
  /** Resolves after the first attempt, also if it failed; see `status`. */
  readonly firstAttempt: Promise<void>;
  #connection: NatsConnection | null = null;
  #state: WireStatus['state'] = 'connecting';
  #lastError = '';
  #reconnects = 0;
  #stopRetry: (() => void) | null = null;
  #closed: Promise<void> | null = null;

  constructor(core: NatsCore, options: NatsOptions, clock: Clock) {
    this.#core = core;
    this.#options = options;
    this.#clock = clock;
    this.firstAttempt = this.#connect();
  }

  get maxPayload(): number {
    return this.#connection?.info?.max_payload ?? MAX_PAYLOAD;
  }

  /** Null before the first connection. */
  get connection(): NatsConnection | null {
    return this.#connection;
  }

  get connected(): boolean {
    return this.#state === 'connected';
  }

  get status(): WireStatus {
    const info = this.#connection?.info;
    return {
      state: this.#state,
      server: this.#state === 'connected' ? (this.#connection?.getServer() ?? '') : '',
      version: info?.version ?? '',
      lacks: info === undefined ? [] : serverProblems(info),
      lastError: this.#lastError,
      reconnects: this.#reconnects,
    };
  }

  /** Returns the name in NATS of a subject or bucket, which contains the name of the cluster. */
  scoped(subject: string): string {
    return scoped(this.#options.cluster ?? null, subject);
  }

  publish(subject: string, payload: Buffer, reply?: string): void {
    if (this.#state !== 'connected') return;
    try {
      const options = reply === undefined ? {} : { reply: this.scoped(reply) };
      this.#connection?.publish(this.scoped(subject), payload, options);
    } catch (error) {
      this.#lastError = String(error);
    }
  }

  flush(): Promise<void> {
    return this.#connection?.flush() ?? Promise.reject(new Error('there is no connection to NATS'));
  }

  subscribe(subject: string, deliver: (message: WireMessage) => void, queue?: string): { close(): Promise<void> } {
    const registered: Registered = { subject, deliver, queue: queue ?? null, live: null };
    this.#registered.add(registered);
    if (this.#connection !== null && !this.#connection.isClosed()) this.#listen(this.#connection, registered);
    return {
      close: async () => {
        this.#registered.delete(registered);
        const { live } = registered;
        if (live === null || this.#connection?.isClosed() !== false) return;
        if (this.#state !== 'connected') live.unsubscribe();
        else await Promise.race([live.drain().catch(() => {}), new Promise((go) => setTimeout(go, DRAIN_MS).unref())]);
      },
    };
  }

  traffic(): WireTraffic | null {
    const stats = this.#connection?.stats();
    if (stats === undefined) return null;
    const { inMsgs, outMsgs, inBytes, outBytes } = stats;
    return { messagesIn: inMsgs, messagesOut: outMsgs, bytesIn: inBytes, bytesOut: outBytes };
  }

  onChange(listener: (change: WireChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const connected = this.#state === 'connected';
    this.#state = 'closed';
    this.#stopRetry?.();
    this.#registered.clear();
    const connection = this.#connection;
    if (connection === null || connection.isClosed()) return;
    if (connected)
      await Promise.race([connection.flush().catch(() => {}), new Promise((go) => setTimeout(go, 500).unref())]);
    await connection.close();
  }

  async #connect(): Promise<void> {
    try {
      const connection = await this.#core.connect(this.#clientOptions());
      unlinkRequests(connection);
      if (this.#state === 'closed') {
        await connection.close();
        return;
      }
      const again = this.#connection !== null;
      this.#connection = connection;
      for (const registered of this.#registered) this.#listen(connection, registered);
      // If the connection is lost during the flush, the client itself connects again.
      this.#follow(connection);
      await connection.flush().then(
        () => this.#up(again),
        (error) => {
          this.#lastError = reasonOf(error);
        },
      );
    } catch (error) {
      this.#lastError = reasonOf(error);
      this.#retry();
    }
  }

  /** As often as the client connects again: a node that was started during an outage must not return later than the others. */
  #retry(): void {
    const delayMs = RETRY_MS + Math.random() * JITTER_MS;
    if (this.#state !== 'closed') this.#stopRetry = this.#clock.after(delayMs, () => void this.#connect());
  }

  #listen(connection: NatsConnection, registered: Registered): void {
    const { subject, queue, deliver } = registered;
    const only = /[*>]/.test(subject) ? null : subject;
    registered.live = connection.subscribe(this.scoped(subject), {
      ...(queue === null ? {} : { queue }),
      callback: (error, message) => {
        if (error !== null) this.#lastError = reasonOf(error);
        else crashOnError(() => deliver(new NatsMessage(message, only, this.#options.cluster ?? null)));
      },
    });
  }

  async #follow(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect') this.#down('the connection to NATS was lost');
      else if (status.type === 'reconnect') this.#up(true);
      else if (status.type === 'error') {
        this.#lastError = reasonOf(status.error);
        if (/slow consumer/i.test(this.#lastError)) this.#notify({ type: 'slow_consumer', subject: '>' });
      }
    }
    // The client can close by itself, for instance if its authenticator throws.
    if (this.#connection !== connection || this.#state === 'closed') return;
    const error = await connection.closed();
    if (error instanceof Error) this.#lastError = reasonOf(error);
    this.#down('the connection to NATS was closed');
    this.#retry();
  }

  #up(resync: boolean): void {
    if (this.#state === 'connected' || this.#state === 'closed') return;
    this.#state = 'connected';
    this.#lastError = '';
    if (resync) this.#reconnects++;
    this.#notify({ type: 'connected', resync });
  }

  #down(reason: string): void {
    if (this.#state !== 'connected') return;
    this.#state = 'disconnected';
    this.#lastError = reason;
    this.#notify({ type: 'disconnected', reason });
  }

  #notify(change: WireChange): void {
    for (const listener of this.#listeners) listener(change);
  }

  #clientOptions(): NodeConnectionOptions {
    const { servers, name, credentials, tls } = this.#options;
    const files = tls === null ? {} : present({ caFile: tls.caFile, certFile: tls.certFile, keyFile: tls.keyFile });
    const encrypted = tls !== null || servers.some((server) => server.startsWith('tls:'));
    return {
      servers: [...servers],
      name,
      timeout: CONNECT_MS,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RETRY_MS,
      reconnectJitter: JITTER_MS,
      // Otherwise the client creates an error with a stack for every request in advance.
      noAsyncTraces: true,
      pingInterval: PING_MS,
      maxPingOut: 2,
      ignoreAuthErrorAbort: true,
      // One per cluster, so that users of other clusters in the same account need no permission to read its replies.
      inboxPrefix: this.scoped('trunkline.inbox'),
      ...(encrypted ? { tls: { ...files, checkServerIdentity: natsIdentity(servers) } as TlsOptions } : {}),
      ...this.#credentials(credentials),
    };
  }

  #credentials(credentials: NatsCredentials | null): NodeConnectionOptions {
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    switch (credentials?.kind) {
      case undefined:
        return {};
      case 'user':
        return { user: credentials.user, pass: credentials.password.reveal() };
      case 'token':
        return { token: credentials.token.reveal() };
      case 'nkey':
        return { authenticator: this.#core.nkeyAuthenticator(bytes(credentials.seed.reveal().trim())) };
      case 'creds':
        return { authenticator: this.#core.credsAuthenticator(bytes(credentials.creds.reveal())) };
    }
  }
}

/** A defect of a receiver must not end the read loop of the client, which would go on without messages. */
export function crashOnError(receive: () => void): void {
  try {
    receive();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

function present(files: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).filter((entry): entry is [string, string] => entry[1] !== null));
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error && cause.message !== '' && !error.message.includes(cause.message)
    ? `${error.message}: ${cause.message}`
    : error.message;
}

/** Reads fields only when needed, because the client decodes text at each access. */
class NatsMessage implements WireMessage {
  readonly payload: Buffer;
  readonly #message: Msg;
  readonly #subject: string | null;
  readonly #cluster: string | null;

  /** `subject`: null if the subscription has a wildcard. */
  constructor(message: Msg, subject: string | null, cluster: string | null) {
    const { data } = message;
    this.payload = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    this.#message = message;
    this.#subject = subject;
    this.#cluster = cluster;
  }

  get subject(): string {
    return this.#subject ?? unscoped(this.#cluster, this.#message.subject);
  }

  get reply(): string {
    return this.#message.reply ?? '';
  }

  get noResponders(): boolean {
    return this.payload.length === 0 && this.#message.headers?.code === 503;
  }

  header(name: string): string | null {
    const { headers } = this.#message;
    return headers?.has(name) === true ? headers.get(name) : null;
  }
}

export interface NatsOptions {
  /** URLs of the servers of one NATS cluster, without credentials. */
  readonly servers: readonly string[];
  readonly name: string;
  /** Name of the cluster; null or absent if it has none. */
  readonly cluster?: string | null;
  readonly credentials: NatsCredentials | null;
  readonly tls: NatsTls | null;
}

/**
 * For servers addressed by IP, the client passes no name to TLS and Node checks for `localhost`: this check accepts a certificate
 * for one of the configured servers. A server that the client learned from the cluster needs such a certificate, too.
 */
function natsIdentity(servers: readonly string[]): (host: string, cert: PeerCertificate) => Error | undefined {
  const hosts = servers.map((server) => bareHost(new URL(server).hostname));
  return (host, cert) => {
    if (host !== 'localhost') return checkServerIdentity(host, cert);
    const errors = hosts.map((configured) => checkServerIdentity(configured, cert));
    return errors.includes(undefined) ? undefined : errors[0];
  };
}

/** Oldest version of nats-server that is tested. */
const OLDEST = [2, 9] as const;

/** Returns what the server lacks by its INFO, as messages for operators. */
export function serverProblems(info: ServerInfo): readonly string[] {
  const lacks: string[] = [];
  const [major = 0, minor = 0] = info.version.split('.').map((part) => Number.parseInt(part, 10));
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    lacks.push(`nats-server ${info.version} is too old: ${OLDEST.join('.')} is the oldest that works`);
  }
  if (info.headers !== true) lacks.push('headers are off, so that a call without a receiver looks like a slow one');
  return lacks;
}

export type NatsCore = typeof import('@nats-io/transport-node');
export type NatsJetStream = typeof import('@nats-io/jetstream');

/** Loads the NATS client, only in a cluster because it costs start time. */
export async function loadNats(): Promise<{ readonly core: NatsCore; readonly jetStream: NatsJetStream }> {
  const [core, jetStream] = await Promise.all([import('@nats-io/transport-node'), import('@nats-io/jetstream')]);
  return { core, jetStream };
}
