import type { ClientProfile } from '../../model/client-profile.ts';
import { type Backoff, backoffMs, withTimeout } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import { request } from '../../protocol/compose.ts';
import { fieldAt } from '../../protocol/fields.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import type { OwnRequest } from '../calls/pending.ts';
import type { Connection } from '../connection/connection.ts';
import { sessionOf } from '../connection/session-key.ts';
import type { ServerContext } from '../server-context.ts';
import type { ServerCatalogs } from './server-catalogs.ts';

/** Capabilities of a server that may announce `list_changed`. */
const LISTS = ['tools', 'prompts', 'resources'];

const REOPEN: Backoff = { initialMs: 500, maxMs: 5 * 60_000, jitter: 0 };
/** How long to wait for the server's acknowledgement before it is listed again anyway. */
const ACK_WAIT_MS = 2_000;

/**
 * Keeps a `subscriptions/listen` open to a stateless server, which announces changes only there (patterns/subscriptions). A
 * broken stream is reopened with back-off; a refused one is not.
 */
class ChangeListener {
  readonly #context: ServerContext;
  #connection: Connection | null = null;
  #disarm: (() => void) | null = null;
  #breaks = 0;
  /** The server refused the subscription. */
  #refused = false;
  #stopWaiting: () => void = () => {};

  constructor(context: ServerContext) {
    this.#context = context;
  }

  /** Subscribes over this connection, unless another one is subscribed or the server announces no changes. */
  watch(connection: Connection): void {
    if (connection.era !== 'stateless' || this.#connection?.ready === true) return;
    const filter = filterOf(connection);
    if (filter === null) return;
    this.close();
    this.#connection = connection;
    this.#open(connection, filter, false);
  }

  /** Whether a connection of this node receives the server's change notifications. */
  get isSubscribed(): boolean {
    return this.#connection?.ready === true && this.#disarm === null && !this.#refused;
  }

  close(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#stopWaiting();
    this.#connection = null;
    this.#breaks = 0;
    this.#refused = false;
  }

  #open(connection: Connection, filter: string, again: boolean): void {
    const message = request(LISTEN, '0', `{"notifications":${filter}}`, 'stateful');
    const openedAt = this.#context.deps.clock.now();
    const { pending } = connection.post(toStateless(message, connection.profile));
    if (again) this.#missedOnceOpen(connection, pending);
    pending.answer.then(
      (answer) => {
        if (answer.kind === 'result') this.#reopen(connection, filter, openedAt);
        else if (this.#connection === connection) this.#refused = true;
      },
      () => this.#reopen(connection, filter, openedAt),
    );
  }

  /** Reports missed notifications once the new stream is acknowledged, or after a timeout. */
  #missedOnceOpen(connection: Connection, pending: OwnRequest): void {
    const open = (): void => {
      this.#stopWaiting();
      pending.onNotification = null;
      this.#context.events.missed(connection);
    };
    this.#stopWaiting = this.#context.deps.clock.after(ACK_WAIT_MS, open);
    pending.onNotification = ({ method }) => {
      if (method === 'notifications/subscriptions/acknowledged') open();
    };
  }

  #reopen(connection: Connection, filter: string, openedAt: number): void {
    this.#stopWaiting();
    if (this.#connection !== connection || !connection.ready) return;
    if (this.#context.deps.clock.now() - openedAt > REOPEN.maxMs) this.#breaks = 0;
    this.#disarm = this.#context.deps.clock.after(backoffMs(REOPEN, this.#breaks++, 0), () => {
      this.#disarm = null;
      if (this.#connection !== connection || !connection.ready) return;
      this.#open(connection, filter, true);
    });
  }
}

/** The filter for the lists that the server declares as changing; null for none. */
function filterOf(connection: Connection): string | null {
  const bytes = Buffer.from(connection.handshake?.capabilities ?? '');
  const changing = LISTS.filter((list) => {
    const flag = fieldAt(bytes, 0, bytes.length, [list, 'listChanged']);
    return flag !== null && bytes[flag.start] === 0x74;
  });
  return changing.length === 0 ? null : `{${changing.map((list) => `"${list}ListChanged":true`).join(',')}}`;
}

/** F12: minimum time between two listings, however often the server or other nodes announce changes. */
const REFRESH_EVERY_MS = 1_000;
/** Changes arrive in groups (tools, prompts and resources of one event) and are collected this long. */
const GROUPING_MS = 20;
/** Longest wait of a call for lists that are due or being read. */
const SETTLE_MS = 2_000;

/** Keeps the known lists of one server current: lists it when possible, and again when it announces changes. */
export class ListRefresher {
  readonly #context: ServerContext;
  readonly #catalogs: ServerCatalogs;
  readonly #listener: ChangeListener;
  /** Announced changes that are not handled yet: per connection one `list_changed` of each kind. */
  readonly #pendingChanges = new Map<Connection, Map<string, Message>>();
  #processedAt = Number.NEGATIVE_INFINITY;
  #disarm: (() => void) | null = null;
  /** Resolves when the announced changes are being handled. */
  #processing = Promise.withResolvers<void>();
  #remoteRelistAt = Number.NEGATIVE_INFINITY;
  #remoteRelist: Promise<void> | null = null;
  /** Cancels the delayed listing that other nodes triggered. */
  #cancelRemoteRelist: () => void = () => {};

  constructor(context: ServerContext, catalogs: ServerCatalogs) {
    this.#context = context;
    this.#catalogs = catalogs;
    this.#listener = new ChangeListener(context);
  }

  /** A connection is available to list the server over. */
  onConnectionAvailable(connection: Connection, profile: ClientProfile): void {
    this.#catalogs.onConnectionAvailable(profile, connection);
    this.#listener.watch(connection);
  }

  /** The server announced a changed list. */
  onListChanged(connection: Connection, message: Message): void {
    let messages = this.#pendingChanges.get(connection);
    if (messages === undefined) this.#pendingChanges.set(connection, (messages = new Map()));
    messages.set(message.method, message);
    const { clock } = this.#context.deps;
    const delayMs = Math.max(GROUPING_MS, this.#processedAt + REFRESH_EVERY_MS - clock.now());
    this.#disarm ??= clock.after(delayMs, () => this.#processChanges());
  }

  #processChanges(): void {
    this.#disarm = null;
    this.#processedAt = this.#context.deps.clock.now();
    const noted = [...this.#pendingChanges];
    this.#pendingChanges.clear();
    for (const [connection, messages] of noted) this.#changed(connection, [...messages.values()]);
    this.#processing.resolve();
    this.#processing = Promise.withResolvers<void>();
  }

  /** Lists again what this connection serves; resolves when the listing is done or has failed. */
  relisted(connection: Connection): Promise<void> {
    return connection.ready ? this.#catalogs.relistOver(connection) : Promise.resolve();
  }

  /** Waits briefly for the lists of this kind of client over its connection. False: none are due or being read. */
  async settled(connection: Connection, client: ClientProfile): Promise<boolean> {
    const catalogs = this.#catalogs;
    // One stateless connection announces the changes of all.
    const isDue =
      this.#pendingChanges.has(connection) || (connection.era === 'stateless' && this.#pendingChanges.size > 0);
    const due = isDue ? this.#processing.promise : null;
    if (due === null && catalogs.listing(client, connection) === null) return false;
    const listed = async (): Promise<void> => {
      await due;
      await catalogs.listing(client, connection);
      // The server may have announced another change during the listing.
      await catalogs.listing(client, connection);
    };
    await withTimeout(this.#context.deps.clock, SETTLE_MS, listed(), () => {});
    return true;
  }

  /** Another node reports changed lists. Lists that this node is subscribed to are skipped. */
  onRemoteChange(): Promise<void> {
    const { clock } = this.#context.deps;
    this.#remoteRelist ??= new Promise((resolve) => {
      const disarm = clock.after(Math.max(0, this.#remoteRelistAt + REFRESH_EVERY_MS - clock.now()), () => {
        this.#remoteRelist = null;
        this.#remoteRelistAt = clock.now();
        resolve(this.#relistAll());
      });
      this.#cancelRemoteRelist = () => {
        disarm();
        this.#remoteRelist = null;
        resolve();
      };
    });
    return this.#remoteRelist;
  }

  close(): void {
    this.#cancelRemoteRelist();
    this.#catalogs.close();
    this.#disarm?.();
    this.#disarm = null;
    this.#pendingChanges.clear();
    this.#processing.resolve();
    this.#listener.close();
  }

  async #relistAll(): Promise<void> {
    const stateful = this.#catalogs.refreshListed('stateful');
    if (!this.#listener.isSubscribed) await this.#catalogs.refreshListed('stateless');
    await stateful;
  }

  #changed(connection: Connection, messages: readonly Message[]): void {
    const { name: server } = this.#context;
    const { events } = this.#context.deps;
    const sessionId = sessionOf(connection.tenancy);
    if (sessionId !== null) {
      for (const message of messages) events.notification(server, sessionId, message, connection.key);
    }
    void this.relisted(connection).then(() => {
      events.relisted?.(server);
      const methods = messages.map(({ method }) => method);
      events.listsAnnounced?.(server, connection.key, methods);
    });
  }
}
