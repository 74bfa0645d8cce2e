import type { PostAnswer, StreamPost } from '../../model/stream-copies.ts';
import type { ClusterRooms } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

type PostHeader = Omit<StreamPost, 'body'>;

const NAME = 'trunkline.posted';
const MAX_POSTS = 10_000;
const DEADLINE_MS = 10_000;

/** Bodies that HTTP+SSE clients post to a node other than the one with their stream, which the URL names. */
export class PostedBodies {
  readonly #deps: Pick<ClusterRooms, 'bus'>;
  readonly #serving: { close(): void };

  constructor(deps: Pick<ClusterRooms, 'bus' | 'downstream'>) {
    const { bus } = deps;
    this.#deps = deps;
    this.#serving = bus.serve(
      NAME,
      (serving) => {
        const { header, pieces } = unpackFrame<PostHeader>(serving.payload);
        const { sessionId, principal, endpoint } = header;
        const answer = deps.downstream.posted({ sessionId, principal, endpoint, body: pieces[0]! });
        serving.answer(packFrame(answer));
      },
      { concurrency: MAX_POSTS },
    );
  }

  /** Never rejects. */
  async post(peer: string, { body, ...header }: StreamPost): Promise<PostAnswer> {
    const payload = packFrame(header, [body]);
    const outcome = await this.#deps.bus.call(NAME, payload, { to: peer, deadlineMs: DEADLINE_MS }).outcome;
    if (outcome.kind === 'result') return unpackFrame<PostAnswer>(outcome.payload).header;
    const { error } = outcome;
    const status = error.outcome === 'UNKNOWN' ? 502 : 503;
    return { status, code: error.rpcCode, text: `the node with the stream does not answer: ${error.message}`, id: '' };
  }

  close(): void {
    this.#serving.close();
  }
}
