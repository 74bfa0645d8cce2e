import type { BusServing, Payload } from '../../bus/bus.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { ConnectionChange, StateLoss } from '../../model/ports.ts';
import type { AskHeader } from '../calls/remote-calls.ts';
import { keyAt } from '../calls/shared-instances.ts';
import type { ClusterParts } from '../cluster-deps.ts';
import {
  type ClientText,
  clientOf,
  headOf,
  type MessageHead,
  messageOf,
  packFrame,
  unpackFrame,
} from '../frames/frame.ts';

/** Messages between nodes outside calls. An MCP message, if any, is the piece of the frame. */
export type SideMessage =
  | { readonly kind: 'notify'; readonly server: string; readonly client: ClientText; readonly message: MessageHead }
  | { readonly kind: 'release'; readonly sessionId: string }
  | { readonly kind: 'streams'; readonly sessionIds: readonly string[] }
  /** An empty list asks for all streams of a node. */
  | { readonly kind: 'sought'; readonly sessionIds: readonly string[] }
  | { readonly kind: 'found'; readonly sessionIds: readonly string[] }
  | {
      readonly kind: 'deliver';
      readonly sessionId: string;
      readonly message: MessageHead;
      readonly server: string | null;
    }
  | { readonly kind: 'client'; readonly sessionId: string; readonly message: MessageHead }
  | {
      readonly kind: 'notification';
      readonly server: string;
      readonly sessionId: string | null;
      readonly key: string;
      readonly message: MessageHead;
    }
  | { readonly kind: 'outdated'; readonly server: string; readonly message: MessageHead | null }
  | { readonly kind: 'lost'; readonly server: string; readonly sessionId: string; readonly cause: StateLoss }
  | { readonly kind: 'changed'; readonly server: string; readonly key: string; readonly change: ConnectionChange };

interface AskedHeader extends AskHeader {
  readonly server: string;
  readonly sessionId: string | null;
  readonly key: string;
}

interface ClientAskHeader extends AskHeader {
  readonly sessionId: string;
  readonly server: string | null;
}

export interface SideReceiver {
  released(sessionId: string): void;
  drainAsked(): void;
}

export interface OpenStreams {
  openedAt(sessionId: string, peer: string): void;
  /** The peer has answered that it has the session's stream. */
  foundAt(sessionId: string, peer: string): void;
  /** The peer asks which of the sessions have their streams here; an empty list asks for all open streams. */
  answerSearch(peer: string, sessionIds: readonly string[]): void;
}

const ALL = 'trunkline.side.all';
/** A user may take this long to answer. */
const ASK_MS = 15 * 60_000 + 5_000;
const MAX_ASKS = 10_000;
const RESTART_MS = 2 * 60_000;
const LARGE_MS = 30_000;
/** Time for the node to acknowledge a drain request. */
const DRAIN_ASKED_MS = 30_000;

/** Messages between nodes that belong to no call; in order between two nodes, except very large ones. */
export class SideMessages {
  readonly #deps: Pick<ClusterParts, 'bus' | 'logger' | 'local' | 'events' | 'downstream'>;

  constructor(deps: Pick<ClusterParts, 'bus' | 'logger' | 'local' | 'events' | 'downstream'>) {
    this.#deps = deps;
  }

  receive(streams: OpenStreams, receiver: SideReceiver): void {
    const { bus, events } = this.#deps;
    const { peer } = bus;
    const take = (payload: Buffer, from: string): void => this.#receive(payload, from, streams, receiver);
    bus.subscribe(`trunkline.side.${peer}`, take);
    bus.subscribe(ALL, take);
    bus.serve('trunkline.large', (serving) => {
      take(serving.payload, serving.from);
      serving.answer(packFrame({}));
    });
    const asked = async (serving: BusServing): Promise<void> => {
      const { header, pieces } = unpackFrame<AskedHeader>(serving.payload);
      const { server, sessionId, key, message } = header;
      const reply = await events.request(server, sessionId, messageOf(message, pieces[0]!), key);
      serving.answer(packFrame({ message: headOf(reply) }, [reply.bytes]));
    };
    const askClient = async (serving: BusServing): Promise<void> => {
      const { header, pieces } = unpackFrame<ClientAskHeader>(serving.payload);
      const message = messageOf(header.message, pieces[0]!);
      const reply = await this.#deps.downstream.ask(header.sessionId, message, header.server ?? undefined);
      serving.answer(packFrame({ message: headOf(reply) }, [reply.bytes]));
    };
    bus.serve('trunkline.asked', asked, { concurrency: MAX_ASKS });
    bus.serve('trunkline.ask-client', askClient, { concurrency: MAX_ASKS });
    bus.serve('trunkline.drain', (serving) => {
      receiver.drainAsked();
      serving.answer(packFrame({}));
    });
    bus.serve('trunkline.restart', async (serving) => {
      await this.#deps.local.restart(unpackFrame<{ server: string }>(serving.payload).header.server);
      serving.answer(packFrame({}));
    });
  }

  /** Never throws. The message is lost if the node or the bus fails. */
  send(peer: string, side: SideMessage, message: Message | null = null): void {
    const frame = packFrame(side, message === null ? [] : [message.bytes]);
    try {
      this.#deps.bus.publish(`trunkline.side.${peer}`, frame);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'TOO_LARGE') throw error;
      this.#deps.bus.call('trunkline.large', frame, { to: peer, deadlineMs: LARGE_MS });
    }
  }

  /** Publishes one message of at most 512 KiB to all nodes, including this one. */
  broadcast(side: SideMessage): void {
    this.#deps.bus.publish(ALL, packFrame(side));
  }

  /** Rejects with GatewayError. */
  ask(peer: string, server: string, sessionId: string | null, message: Message, key: string): Promise<Message> {
    const header: AskedHeader = { server, sessionId, key, message: headOf(message) };
    return this.#answered(peer, 'asked', header, message);
  }

  /** Asks a client whose stream is at that node. Rejects with GatewayError. */
  askClient(peer: string, sessionId: string, message: Message, server: string | null): Promise<Message> {
    const header: ClientAskHeader = { sessionId, server, message: headOf(message) };
    return this.#answered(peer, 'ask-client', header, message);
  }

  async restart(peer: string, server: string): Promise<void> {
    await this.#done(peer, 'restart', packFrame({ server }), RESTART_MS);
  }

  async drain(peer: string): Promise<void> {
    await this.#done(peer, 'drain', packFrame({}), DRAIN_ASKED_MS);
  }

  async #answered(peer: string, name: string, header: object, message: Message): Promise<Message> {
    const answer = await this.#done(peer, name, packFrame(header, [message.bytes]), ASK_MS);
    const { header: reply, pieces } = unpackFrame<AskHeader>(answer);
    return messageOf(reply.message, pieces[0]!);
  }

  /** Rejects with GatewayError. */
  async #done(peer: string, name: string, frame: Payload, deadlineMs: number): Promise<Buffer> {
    const outcome = await this.#deps.bus.call(`trunkline.${name}`, frame, { to: peer, deadlineMs }).outcome;
    if (outcome.kind === 'failure') throw outcome.error;
    return outcome.payload;
  }

  #receive(payload: Buffer, from: string, streams: OpenStreams, receiver: SideReceiver): void {
    const { events, local, logger, downstream } = this.#deps;
    try {
      const { header: side, pieces } = unpackFrame<SideMessage>(payload);
      const message = (head: MessageHead): Message => messageOf(head, pieces[0]!);
      switch (side.kind) {
        case 'notify':
          local.notify(side.server, message(side.message), clientOf(side.client));
          return;
        case 'streams':
          for (const sessionId of side.sessionIds) streams.openedAt(sessionId, from);
          return;
        case 'sought':
          streams.answerSearch(from, side.sessionIds);
          return;
        case 'found':
          for (const sessionId of side.sessionIds) streams.foundAt(sessionId, from);
          return;
        case 'deliver':
          downstream.deliver(side.sessionId, message(side.message), side.server ?? undefined);
          return;
        case 'client':
          downstream.fromElsewhere(side.sessionId, message(side.message));
          return;
        case 'release':
          receiver.released(side.sessionId);
          return;
        case 'notification':
          events.notification(side.server, side.sessionId, message(side.message), side.key);
          // Watchers know a shared server's process at another node by this key.
          if (side.sessionId === null && side.message.method === 'notifications/resources/updated')
            events.notification(side.server, null, message(side.message), keyAt(side.key, from));
          return;
        case 'outdated':
          events.contentChanged(side.server, side.message === null ? null : message(side.message));
          return;
        case 'lost':
          events.stateLost(side.server, side.sessionId, side.cause);
          return;
        case 'changed':
          events.connectionChanged(side.server, side.key, side.change);
          events.connectionChanged(side.server, keyAt(side.key, from), side.change);
      }
    } catch (error) {
      logger.warn('side_message_unreadable', { error: String(error) });
    }
  }
}
