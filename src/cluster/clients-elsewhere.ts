import type { Bus } from '../bus/bus.ts';
import type { EventSink } from '../model/event-sink.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import { packFrame, unpackFrame } from './frame.ts';
import type { Nodes } from './nodes.ts';
import { ResumedStreams } from './resumed-streams.ts';
import { ReturnedCalls } from './returned-calls.ts';

/** The clients' side of this node, for what clients of other nodes come back to. */
export interface OwnClients {
  /** A call that waits here goes on with what its client brought to another node. Never rejects. */
  returned(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** A stream that began here; false where there is none such. */
  resumeFor(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean>;
}

/** The core of this node, as far as it keeps books for sessions. */
export interface OwnBooks {
  /** The session gave a resource up, by way of another node. */
  givenUp(sessionId: string, server: string, uri: string): void;
}

interface GivenUp {
  readonly sessionId: string;
  readonly server: string;
  readonly uri: string;
}

const GIVEN_UP = 'trunkline.given-up';

/** Clients that come to one node with what leads back to another: both ways. */
export class ClientsElsewhere {
  readonly self: string;
  readonly #bus: Bus;
  readonly #nodes: () => Nodes;
  readonly #calls: ReturnedCalls;
  readonly #streams: ResumedStreams;
  readonly #books: { close(): void };
  #own: OwnClients | null = null;
  #ownBooks: OwnBooks | null = null;

  constructor(bus: Bus, nodes: () => Nodes) {
    this.self = bus.peer;
    this.#bus = bus;
    this.#nodes = nodes;
    this.#calls = new ReturnedCalls(bus, (exchange, endpoint) => this.#returned(exchange, endpoint));
    this.#streams = new ResumedStreams({
      bus,
      others: () => [...nodes().others()].map(({ peer }) => peer),
      resume: async (...stream) => (await this.#own?.resumeFor(...stream)) ?? false,
    });
    this.#books = bus.subscribe(GIVEN_UP, (payload, from) => {
      if (from === bus.peer) return;
      const { sessionId, server, uri } = unpackFrame<GivenUp>(payload).header;
      this.#ownBooks?.givenUp(sessionId, server, uri);
    });
  }

  /** The clients and the core of this node, which need us to be made. */
  attach(own: OwnClients, books: OwnBooks): void {
    this.#own = own;
    this.#ownBooks = books;
  }

  /** To all other nodes: one of them may have the subscription in its books. A hint; lost in an outage. */
  givenUp(sessionId: string, server: string, uri: string): void {
    const told: GivenUp = { sessionId, server, uri };
    this.#bus.publish(GIVEN_UP, packFrame(told));
  }

  has(peer: string): boolean {
    return this.#nodes().get(peer) !== null;
  }

  returned(peer: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    return this.#calls.run(peer, exchange, endpoint);
  }

  resume(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean> {
    return this.#streams.resume(sessionId, afterId, open);
  }

  /** Takes nothing new of other nodes. */
  close(): void {
    this.#calls.close();
    this.#streams.close();
    this.#books.close();
  }

  #returned(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    if (this.#own !== null) return this.#own.returned(exchange, endpoint);
    return Promise.resolve(failure(new GatewayError('NOT_SENT', 'this node has only just begun')));
  }
}
