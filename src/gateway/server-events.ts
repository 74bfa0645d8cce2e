import { CATALOGUE } from '../model/error-catalogue.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { StateLoss } from '../model/ports.ts';
import { errorAnswer, failureAnswer, notification } from '../protocol/compose.ts';
import { listsChangedBy } from '../protocol/methods.ts';
import type { Announcer } from './announcer.ts';
import type { ListParts } from './list-parts.ts';
import type { SeenSession } from './lists/seen-sessions.ts';
import { sees } from './policy/access.ts';
import { exposedUpdate, isUpdate, updatedUri } from './resource-updates.ts';
import type { Tasks } from './tasks/tasks.ts';

interface ServerEventsDeps extends ListParts {
  readonly announcer: Announcer;
  readonly tasks: Tasks;
}

/** The text that a session gets about the loss of its server's state. */
const LOSSES: Readonly<Record<StateLoss, string>> = {
  idle: 'was ended because it was not used for long',
  closed: 'was ended by the program that runs the gateway',
  room: 'was idle, and was ended to make room for others at the limit of processes',
  errors: 'was ended because it failed too often',
  removed: 'was removed',
  restarted: 'was restarted',
};

/**
 * Notifications and requests of servers outside any call. They go to the session of the connection, in that session's names.
 * Without a session, only resource updates and messages of tasks are handled; the rest is dropped or refused.
 */
export class ServerEvents {
  readonly #deps: ServerEventsDeps;

  constructor(deps: ServerEventsDeps) {
    this.#deps = deps;
  }

  notification(server: string, sessionId: string | null, message: Message, key: string): void {
    if (isUpdate(message)) {
      this.#updated(server, sessionId, message, key);
      return;
    }
    if (message.method.startsWith('notifications/tasks')) this.#deps.tasks.received(server, sessionId, key, message);
    if (sessionId === null || !this.#mayReceive(sessionId, server)) return;
    const seen = this.#deps.sessions.get(sessionId);
    if (listsChangedBy(message.method).length > 0) this.#listChanged(sessionId, seen, message);
    else this.#deps.streams.deliver(sessionId, this.#outward(server, seen, message), server);
  }

  async request(server: string, sessionId: string | null, message: Message, key: string): Promise<Message> {
    if (sessionId === null) {
      const answered = this.#deps.tasks.asked(server, key, message);
      if (answered !== null) return answered;
      return refusal(message, 'this connection belongs to no single client that could be asked');
    }
    const seen = this.#deps.sessions.get(sessionId);
    if (seen !== null && !sees(seen.client.principal, server))
      return refusal(message, 'the client may not use this server');
    try {
      const reply = await this.#deps.streams.ask(sessionId, this.#outward(server, seen, message), server);
      if (seen === null) return reply;
      return this.#deps.tasks.ids.inward(reply, server, seen.client.principal, seen.endpoint);
    } catch (cause) {
      if (!(cause instanceof GatewayError)) return refusal(message, 'the client could not be asked');
      if (cause.code === 'MISSING_CAPABILITY') return refusal(message, cause.message);
      return failureAnswer(message.id, cause, message.era);
    }
  }

  /** The session's process ended or was replaced: notifies the session that its state there is lost. */
  stateLost(server: string, sessionId: string, cause: StateLoss): void {
    this.#deps.announcer.stateLost(sessionId);
    const data = `The server '${server}' ${LOSSES[cause]}; what it kept for this session is lost.`;
    const params = JSON.stringify({ level: 'warning', logger: 'trunkline', data });
    this.#deps.streams.deliver(sessionId, notification('notifications/message', params, 'stateful'));
  }

  /**
   * On a server's own endpoint the notification is forwarded, because lists are requested from the server there. On the
   * aggregate `Announcer` notifies, once it knows that the merged list changed.
   */
  #listChanged(sessionId: string, seen: SeenSession | null, message: Message): void {
    if (seen === null || isAggregate(seen)) return;
    this.#deps.announcer.recordServerNotification(seen, message.method);
    this.#deps.streams.deliver(sessionId, message);
  }

  #updated(server: string, sessionId: string | null, message: Message, key: string): void {
    const { streams, sessions, watches } = this.#deps;
    const uri = updatedUri(message)?.uri;
    if (uri === undefined) return;
    if (sessionId === null) {
      watches.updated(server, key, uri, message);
      return;
    }
    if (!this.#mayReceive(sessionId, server)) return;
    const seen = sessions.get(sessionId);
    // Servers may report a part of a subscribed resource, under its own URI.
    const named = watches.exposed(server, key, uri) ?? (seen === null ? uri : this.#nameOf(seen, server, uri));
    streams.deliver(
      sessionId,
      exposedUpdate(message, () => named),
    );
  }

  #nameOf(seen: SeenSession, server: string, uri: string): string {
    return isAggregate(seen) ? this.#deps.catalogs.of(seen.client).exposedUri(server, uri) : uri;
  }

  #mayReceive(sessionId: string, server: string): boolean {
    const seen = this.#deps.sessions.get(sessionId);
    return seen === null || sees(seen.client.principal, server);
  }

  #outward(server: string, seen: SeenSession | null, message: Message): Message {
    if (seen === null) return message;
    return this.#deps.tasks.ids.outward(message, server, seen.client.principal, seen.endpoint);
  }
}

function isAggregate(seen: SeenSession): boolean {
  return seen.endpoint.kind === 'aggregate';
}

function refusal(request: Message, text: string): Message {
  return errorAnswer(request.id, CATALOGUE.METHOD_NOT_FOUND.rpc, text, null, request.era);
}
