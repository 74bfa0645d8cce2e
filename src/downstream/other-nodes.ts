import type { EventSink } from '../model/event-sink.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import type { Outcome } from '../model/outcome.ts';

/** The other nodes of a cluster, for clients that come to this one with what leads back to those. */
export interface OtherNodes {
  /** This node's own name among them: 16 hexadecimal digits, new with every process. */
  readonly self: string;
  has(node: string): boolean;
  /** Hands a stateless client's exchange, with its state and its answers, to the node where its call waits. Never rejects. */
  returned(node: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /**
   * Goes on with a stream of another node after this event; false where none has it. `open` is called at most once,
   * before anything else. Never rejects.
   */
  resume(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean>;
}
