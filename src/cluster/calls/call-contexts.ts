import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { type ClientText, clientOf, clientText } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import type { NodeView } from '../nodes/node-state.ts';

/** What is the same from one call of a client to a server to the next, as long as it goes to the same instance. */
interface CallContext {
  readonly server: string;
  /** Of the node's lease, as the caller knows it. */
  readonly nodeEpoch: string;
  /** Of the claim on what the call needs, as the caller knows it; null where it needs none. */
  readonly epoch: string | null;
  readonly takesInputRequired: boolean;
  readonly sealsInput: boolean;
  readonly beginsTask: boolean;
  readonly waitsForTask: boolean;
}

/** Terms under the number that their caller gave them. */
export interface SentContext {
  readonly peer: string;
  readonly number: number;
  readonly context: CallContext;
  /** As they are sent; null where no call sends them at the moment. Many are kept, and the text is most of them. */
  text: Buffer | null;
  /** The other node has them: calls need their number only. */
  known: boolean;
}

interface ReceivedContext {
  readonly context: CallContext;
  readonly client: ClientProfile;
}

type ContextText = CallContext & { readonly client: ClientText };

/** So many clients have terms at the caller's side, and so many terms are kept at the other. */
const MAX_CONTEXTS = 4_096;
/** For so many servers of one client; with more of them, contexts are sent again. */
const MAX_OF_CLIENT = 8;
/** Nodes whose terms are kept. */
const MAX_PEERS = 1_024;
/** Longer ones are not worth the memory at the other node. */
const MAX_TEXT = 4_096;

/** The caller's side: which contexts were sent to which node, under which number. */
export class OutgoingContexts {
  readonly #sent = new LruMap<SentContext[], ClientProfile>(MAX_CONTEXTS);
  #last = 0;

  /** Null where they are not to be kept. */
  of(
    { peer, epoch: nodeEpoch }: NodeView,
    server: string,
    epoch: string | null,
    exchange: Exchange,
  ): SentContext | null {
    const { client } = exchange;
    // What a stateless client is, it says with every request.
    if (client.sessionId === null) return null;
    let all = this.#sent.get(client);
    const found = all?.find(
      (sent) =>
        sent.peer === peer &&
        sent.context.server === server &&
        sent.context.nodeEpoch === nodeEpoch &&
        sent.context.epoch === epoch &&
        sent.context.takesInputRequired === exchange.takesInputRequired &&
        sent.context.sealsInput === (exchange.sealsInput === true) &&
        sent.context.beginsTask === (exchange.beginsTask === true) &&
        sent.context.waitsForTask === (exchange.waitsForTask === true),
    );
    if (found !== undefined) return found;
    const sent = this.#make(peer, { server, nodeEpoch, epoch, ...flagsOf(exchange) }, client);
    if (sent === null) return null;
    if (all === undefined) this.#sent.set(client, (all = []));
    if (all.length >= MAX_OF_CLIENT) all.shift();
    all.push(sent);
    return sent;
  }

  /** What is sent to the other node, which does not have them. */
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

/** The serving side: what the numbers of other nodes mean. */
export class IncomingContexts {
  readonly #heard = new LruMap<ReceivedContext, number>(MAX_CONTEXTS);
  /** Each node by a number of ours, because one number is found sooner than a text with two of them. */
  readonly #peers = new LruMap<number>(MAX_PEERS);
  #lastPeer = 0;

  /** Undefined for what was never received, or was forgotten. */
  get(peer: string, number: number): ReceivedContext | undefined {
    return this.#heard.get(this.#keyOf(peer, number));
  }

  /** Throws SyntaxError or TypeError for what no node can have said. */
  take(peer: string, number: number, text: string): ReceivedContext {
    const { client, ...context } = JSON.parse(text) as ContextText;
    const heard = { context, client: clientOf(client) };
    this.#heard.set(this.#keyOf(peer, number), heard);
    return heard;
  }

  /** `number` has four bytes. Of a node that was forgotten nothing is found any more. */
  #keyOf(peer: string, number: number): number {
    let known = this.#peers.get(peer);
    if (known === undefined) this.#peers.set(peer, (known = ++this.#lastPeer));
    return known * 2 ** 32 + number;
  }
}

function textOf(context: CallContext, client: ClientProfile): Buffer {
  return Buffer.from(JSON.stringify({ ...context, client: clientText(client) } satisfies ContextText));
}

function flagsOf({ takesInputRequired, sealsInput, beginsTask, waitsForTask }: Exchange) {
  return {
    takesInputRequired,
    sealsInput: sealsInput === true,
    beginsTask: beginsTask === true,
    waitsForTask: waitsForTask === true,
  };
}
