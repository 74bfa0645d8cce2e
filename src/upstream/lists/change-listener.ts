import { type Backoff, backoffMs } from '../../model/clock.ts';
import { request } from '../../protocol/compose.ts';
import { fieldAt } from '../../protocol/fields.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import type { OwnRequest } from '../calls/pending.ts';
import type { Connection } from '../connection/connection.ts';
import type { ServerContext } from '../server-context.ts';

/** What of a server's capabilities makes its `list_changed` worth listening for, and how the filter names it. */
const LISTS = [
  ['tools', 'toolsListChanged'],
  ['prompts', 'promptsListChanged'],
  ['resources', 'resourcesListChanged'],
] as const;

const REOPEN: Backoff = { initialMs: 500, maxMs: 5 * 60_000, jitter: 0 };
/** How long the server's acknowledgement is waited for before it is listed again without. */
const ACK_WAIT_MS = 2_000;

/**
 * Keeps a `subscriptions/listen` open to a stateless server, which announces changes nowhere else
 * (patterns/subscriptions). A stream that breaks is opened again, ever less often; one that is refused is not.
 */
export class ChangeListener {
  readonly #context: ServerContext;
  #connection: Connection | null = null;
  #disarm: (() => void) | null = null;
  #breaks = 0;
  /** The server does not tell us of changes. */
  #refused = false;
  #stopWaiting: () => void = () => {};

  constructor(context: ServerContext) {
    this.#context = context;
  }

  /** Listens over this connection, unless another one does already or there is nothing to hear. */
  watch(connection: Connection): void {
    if (connection.era !== 'stateless' || this.#connection?.ready === true) return;
    const filter = filterOf(connection);
    if (filter === null) return;
    this.close();
    this.#connection = connection;
    this.#open(connection, filter, false);
  }

  /** Whether the server tells of changes over a connection of this node. */
  get hears(): boolean {
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

  /** Only when the server reports changes again. */
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
    this.#breaks = this.#context.deps.clock.now() - openedAt > REOPEN.maxMs ? 0 : this.#breaks + 1;
    this.#disarm = this.#context.deps.clock.after(backoffMs(REOPEN, this.#breaks, 0), () => {
      this.#disarm = null;
      if (this.#connection !== connection || !connection.ready) return;
      this.#open(connection, filter, true);
    });
  }
}

/** The filter for the lists that the server says may change; null for none. */
function filterOf(connection: Connection): string | null {
  const bytes = Buffer.from(connection.handshake?.capabilities ?? '');
  const flags = LISTS.filter(([list]) => {
    const flag = fieldAt(bytes, 0, bytes.length, [list, 'listChanged']);
    return flag !== null && bytes[flag.start] === 0x74;
  });
  return flags.length === 0 ? null : `{${flags.map(([, flag]) => `"${flag}":true`).join(',')}}`;
}
