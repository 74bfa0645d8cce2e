import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { PostAnswer, StreamPost, StreamsElsewhere } from '../../model/stream-copies.ts';

/** The other nodes of a cluster, for clients that come to this one with what leads back to those. */
export interface OtherNodes extends StreamsElsewhere {
  /** This node's own name among them: 16 hexadecimal digits, new with every process. */
  readonly self: string;
  has(node: string): boolean;
  /** Hands a stateless client's exchange, with its state and its answers, to the node where its call waits. Never rejects. */
  returned(node: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** Hands what a client of HTTP+SSE posted here to the node that has its stream. Never rejects. */
  posted(node: string, post: StreamPost): Promise<PostAnswer>;
}
