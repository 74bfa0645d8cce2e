import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { type ClientText, clientOf, clientText } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import type { NodeView } from '../nodes/node-state.ts';

/** What is the same from one call of a client to a server to the next, as long as it goes to the same instance. */
interface CallTerms {
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
export interface ToldTerms {
  readonly peer: string;
  readonly number: number;
  readonly terms: CallTerms;
  /** As they are sent; null where no call sends them at the moment. Many are kept, and the text is most of them. */
  text: Buffer | null;
  /** The other node has them: calls need their number only. */
  known: boolean;
}

interface HeardTerms {
  readonly terms: CallTerms;
  readonly client: ClientProfile;
}

type TermsText = CallTerms & { readonly client: ClientText };

/** So many clients have terms at the caller's side, and so many terms are kept at the other. */
const MAX_TERMS = 4_096;
/** For so many servers of one client; with more of them, contexts are sent again. */
const MAX_OF_CLIENT = 8;
/** Nodes whose terms are kept. */
const MAX_PEERS = 1_024;
/** Longer ones are not worth the memory at the other node. */
const MAX_TEXT = 4_096;

/** The caller's side: which contexts were sent to which node, under which number. */
export class TermsToTell {
  readonly #told = new LruMap<ToldTerms[], ClientProfile>(MAX_TERMS);
  #last = 0;

  /** Null where they are not to be kept. */
  of({ peer, epoch: nodeEpoch }: NodeView, server: string, epoch: string | null, exchange: Exchange): ToldTerms | null {
    const { client } = exchange;
    // What a stateless client is, it says with every request.
    if (client.sessionId === null) return null;
    let all = this.#told.get(client);
    const found = all?.find(
      (told) =>
        told.peer === peer &&
        told.terms.server === server &&
        told.terms.nodeEpoch === nodeEpoch &&
        told.terms.epoch === epoch &&
        told.terms.takesInputRequired === exchange.takesInputRequired &&
        told.terms.sealsInput === (exchange.sealsInput === true) &&
        told.terms.beginsTask === (exchange.beginsTask === true) &&
        told.terms.waitsForTask === (exchange.waitsForTask === true),
    );
    if (found !== undefined) return found;
    const told = this.#make(peer, { server, nodeEpoch, epoch, ...flagsOf(exchange) }, client);
    if (told === null) return null;
    if (all === undefined) this.#told.set(client, (all = []));
    if (all.length >= MAX_OF_CLIENT) all.shift();
    all.push(told);
    return told;
  }

  /** What is sent to the other node, which does not have them. */
  textOf(told: ToldTerms, client: ClientProfile): Buffer {
    return (told.text ??= textOf(told.terms, client));
  }

  #make(peer: string, terms: CallTerms, client: ClientProfile): ToldTerms | null {
    const text = textOf(terms, client);
    if (text.length > MAX_TEXT) return null;
    this.#last = (this.#last + 1) >>> 0;
    return { peer, number: this.#last, terms, text, known: false };
  }
}

/** The serving side: what the numbers of other nodes mean. */
export class TermsHeard {
  readonly #heard = new LruMap<HeardTerms, number>(MAX_TERMS);
  /** Each node by a number of ours, because one number is found sooner than a text with two of them. */
  readonly #peers = new LruMap<number>(MAX_PEERS);
  #lastPeer = 0;

  /** Undefined for what was never received, or was forgotten. */
  get(peer: string, number: number): HeardTerms | undefined {
    return this.#heard.get(this.#keyOf(peer, number));
  }

  /** Throws SyntaxError or TypeError for what no node can have said. */
  take(peer: string, number: number, text: string): HeardTerms {
    const { client, ...terms } = JSON.parse(text) as TermsText;
    const heard = { terms, client: clientOf(client) };
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

function textOf(terms: CallTerms, client: ClientProfile): Buffer {
  return Buffer.from(JSON.stringify({ ...terms, client: clientText(client) } satisfies TermsText));
}

function flagsOf({ takesInputRequired, sealsInput, beginsTask, waitsForTask }: Exchange) {
  return {
    takesInputRequired,
    sealsInput: sealsInput === true,
    beginsTask: beginsTask === true,
    waitsForTask: waitsForTask === true,
  };
}
