import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { type ClientText, clientOf, clientText } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import type { NodeView } from '../nodes/node-state.ts';

const OPTIONS = ['takesInputRequired', 'sealsInput', 'beginsTask', 'waitsForTask'] as const;

/** The options of `Exchange` that the serving node applies too. */
export type ForwardedOptions = Readonly<Record<(typeof OPTIONS)[number], boolean>>;

export function forwardedOptionsOf(exchange: Exchange): ForwardedOptions {
  return Object.fromEntries(OPTIONS.map((option) => [option, exchange[option] === true])) as ForwardedOptions;
}

/** The fields that are the same in all calls of a client to one server instance. */
interface CallContext extends ForwardedOptions {
  readonly server: string;
  readonly nodeEpoch: string;
  /** Epoch of the claim that the call needs; null if it needs none. */
  readonly epoch: string | null;
}

export interface SentContext {
  readonly peer: string;
  readonly number: number;
  readonly context: CallContext;
  /** The context as JSON. Null when no call is sending it, because the text takes most of the memory of a context. */
  text: Buffer | null;
  /** Whether the other node has the context, so that calls send only its number. */
  known: boolean;
}

interface ReceivedContext {
  readonly context: CallContext;
  readonly client: ClientProfile;
}

type ContextText = CallContext & { readonly client: ClientText };

const MAX_CONTEXTS = 4_096;
const MAX_OF_CLIENT = 8;
const MAX_PEERS = 1_024;
const MAX_TEXT = 4_096;

/** The contexts that this node sends with its calls. */
export class OutgoingContexts {
  readonly #sent = new LruMap<SentContext[], ClientProfile>(MAX_CONTEXTS);
  #last = 0;

  /** Returns null if the client is stateless or its context is too long to keep. */
  of(
    { peer, epoch: nodeEpoch }: NodeView,
    server: string,
    epoch: string | null,
    exchange: Exchange,
  ): SentContext | null {
    const { client } = exchange;
    // A stateless client describes itself in every request.
    if (client.sessionId === null) return null;
    let all = this.#sent.get(client);
    const found = all?.find(
      (sent) =>
        sent.peer === peer &&
        sent.context.server === server &&
        sent.context.nodeEpoch === nodeEpoch &&
        sent.context.epoch === epoch &&
        OPTIONS.every((option) => sent.context[option] === (exchange[option] === true)),
    );
    if (found !== undefined) return found;
    const sent = this.#make(peer, { server, nodeEpoch, epoch, ...forwardedOptionsOf(exchange) }, client);
    if (sent === null) return null;
    if (all === undefined) this.#sent.set(client, (all = []));
    if (all.length >= MAX_OF_CLIENT) all.shift();
    all.push(sent);
    return sent;
  }

  textOf(sent: SentContext, client: ClientProfile): Buffer {
    return (sent.text ??= textOf(sent.context, client));
  }

  #make(peer: string, context: CallContext, client: ClientProfile): SentContext | null {
    const text = textOf(context, client);
    if (text.length > MAX_TEXT) return null;
    this.#last = (this.#last + 1) >>> 0;
    return { peer, number: this.#last, context, text, known: false };
  }
}

/** The contexts that this node received with calls. */
export class IncomingContexts {
  readonly #received = new LruMap<ReceivedContext, number>(MAX_CONTEXTS);
  /** A number for each peer, so that `#received` has numeric keys: they are found faster than strings. */
  readonly #peers = new LruMap<number>(MAX_PEERS);
  #lastPeer = 0;

  /** Returns undefined if this node never received the context or has evicted it. */
  get(peer: string, number: number): ReceivedContext | undefined {
    return this.#received.get(this.#keyOf(peer, number));
  }

  /** Throws SyntaxError or TypeError for a malformed text. */
  take(peer: string, number: number, text: string): ReceivedContext {
    const { client, ...context } = JSON.parse(text) as ContextText;
    const received = { context, client: clientOf(client) };
    this.#received.set(this.#keyOf(peer, number), received);
    return received;
  }

  #keyOf(peer: string, number: number): number {
    let known = this.#peers.get(peer);
    if (known === undefined) this.#peers.set(peer, (known = ++this.#lastPeer));
    return known * 2 ** 32 + number;
  }
}

function textOf(context: CallContext, client: ClientProfile): Buffer {
  return Buffer.from(JSON.stringify({ ...context, client: clientText(client) } satisfies ContextText));
}
