import type { Catalog } from '../../catalog/catalog.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { notification } from '../../protocol/compose.ts';
import { SUBSCRIPTION_ID_KEY } from '../../protocol/meta-keys.ts';
import { editBody, metaChange, spliceMessage, withBody } from '../../protocol/splice.ts';
import { withDeclaredInput } from '../../protocol/stateless/input-required.ts';
import type { Recipient } from '../lists/list-changes.ts';
import { ownAnswer } from '../own-results.ts';
import { sees } from '../policy/access.ts';
import { honouredBy, listsHonouredBy, updatesOf } from './listen-filter.ts';
import type { Watcher } from './resource-watches.ts';
import { ListenOwner } from './server-listen.ts';

/** Limits of what is held before the acknowledgement. */
const MAX_EARLY = 256;
const MAX_EARLY_BYTES = 256 * 1024;

/**
 * One open `subscriptions/listen` of a stateless client. Everything sent on it carries the request's id as subscription id
 * (2026-07-28 basic/patterns/subscriptions). Notifications before the acknowledgement are held, because it must come first.
 * Ends exactly once: by the client, or gracefully by the gateway.
 */
export class Listen extends ListenOwner implements Recipient, Watcher {
  readonly exchange: Exchange;
  readonly endpoint: Endpoint;
  announced: Catalog | null;
  /** The clock time of the last notification, by method. */
  readonly notified = new Map<string, number>();
  /** The requested `list_changed` methods. */
  readonly methods: ReadonlySet<string>;
  readonly ended: Promise<Outcome>;
  #end!: (outcome: Outcome) => void;
  acknowledged = false;
  /** Notifications held before the acknowledgement; null after it, or if there were too many. */
  #early: Message[] | null = [];
  #earlyBytes = 0;
  readonly #id: string;

  constructor(exchange: Exchange, endpoint: Endpoint, methods: ReadonlySet<string>, announced: Catalog | null) {
    super();
    this.exchange = exchange;
    this.endpoint = endpoint;
    this.methods = methods;
    this.announced = announced;
    this.#id = idText(exchange.request);
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    exchange.onCancel = (reason) => this.endWith(failure(new GatewayError('CANCELLED', reason)));
    if (exchange.cancelled !== null) exchange.onCancel(exchange.cancelled);
  }

  get id(): string {
    return this.exchange.id;
  }

  get client(): ClientProfile {
    return this.exchange.client;
  }

  /** Sends the acknowledgement, then held notifications. `filter` is the JSON of the honoured filter. */
  acknowledge(filter: string): void {
    const params = `{"notifications":${filter}}`;
    this.acknowledgeWith(notification('notifications/subscriptions/acknowledged', params, 'stateless'));
  }

  /**
   * Sends it, then the held notifications. If there were too many, everything that it honours is reported as changed once,
   * except tasks, whose state a client can request.
   */
  acknowledgeWith(acknowledgement: Message): void {
    if (!this.open || this.acknowledged) return;
    this.acknowledged = true;
    this.#emit(acknowledgement);
    for (const message of this.#early ?? allOf(acknowledgement)) this.#emit(message);
    this.#early = null;
  }

  /** Sends a notification of either era under this subscription's id. */
  send(message: Message): void {
    if (!this.open) return;
    if (this.acknowledged) {
      this.#emit(message);
      return;
    }
    this.#earlyBytes += message.bytes.length;
    if (this.#early !== null && this.#early.length < MAX_EARLY && this.#earlyBytes <= MAX_EARLY_BYTES) {
      this.#early.push(message);
    } else this.#early = null;
  }

  /** Sends an update of a resource of a stateful server. */
  updated(server: string, message: Message): void {
    if (sees(this.client.principal, server)) this.send(message);
  }

  /** Ends the stream gracefully (§Graceful Closure). */
  complete(): void {
    this.endWith(ownAnswer('stateless', `"_meta":{"${SUBSCRIPTION_ID_KEY}":${this.#id}}`));
  }

  endWith(outcome: Outcome): void {
    if (!this.open) return;
    this.exchange.onCancel = null;
    this.end();
    this.#end(outcome);
  }

  #emit(message: Message): void {
    const isTask = message.method === 'notifications/tasks';
    this.exchange.emit(tagged(isTask ? withDeclaredInput(message, this.client) : message, this.#id));
  }
}

function allOf(acknowledgement: Message): Message[] {
  return [
    ...listsHonouredBy(acknowledgement).map((method) => notification(method, null, 'stateless')),
    ...updatesOf(honouredBy(acknowledgement)),
  ];
}

/** The id's lexeme as text, because it is put into JSON that is encoded again. */
function idText(request: Message): string {
  return request.bytes.toString('utf8', request.idStart, request.idEnd);
}

function tagged(message: Message, id: string): Message {
  const { bytes, bodyStart: start, bodyEnd: end } = message;
  if (start < 0) return withBody(message, `{"_meta":{"${SUBSCRIPTION_ID_KEY}":${id}}}`, 'stateless');
  const change = metaChange(bytes, { start, end }, [[SUBSCRIPTION_ID_KEY, id]]);
  if (change === null) return spliceMessage(message, [], 'stateless');
  return editBody(message, [change], 'stateless');
}
