import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { PostAnswer, StreamPost, StreamsElsewhere } from '../../model/stream-copies.ts';

/** The other nodes of a cluster, for clients whose call or stream is at one of them. */
export interface OtherNodes extends StreamsElsewhere {
  /** This node's name in the cluster: 16 hexadecimal digits, new with every process. */
  readonly self: string;
  has(node: string): boolean;
  /** Forwards a stateless client's exchange to the node where its call is pending. Never rejects. */
  returned(node: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** Forwards a post of an HTTP+SSE client to the node with its stream; null if that node is gone. Never rejects. */
  posted(node: string, post: StreamPost): Promise<PostAnswer | null>;
}
