import type { Bus, BusServing } from '../../bus/bus.ts';
import type { PostAnswer, StreamPost } from '../../model/stream-copies.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

type PostHeader = Omit<StreamPost, 'body'>;

const MAX_POSTS = 10_000;
const DEADLINE_MS = 10_000;

/** Bodies that HTTP+SSE clients post to a node other than the one with their stream, which the URL names. */
export class PostedBodies {
  readonly #bus: Bus;
  readonly #take: (post: StreamPost) => PostAnswer;
  readonly #serving: { close(): void };

  constructor(bus: Bus, take: (post: StreamPost) => PostAnswer) {
    this.#bus = bus;
    this.#take = take;
    this.#serving = bus.serve(subject(bus.peer), (serving) => this.#serve(serving), { concurrency: MAX_POSTS });
  }

  /** Never rejects. */
  async post(peer: string, { body, ...header }: StreamPost): Promise<PostAnswer> {
    const payload = packFrame(header, [body]);
    const outcome = await this.#bus.call(subject(peer), payload, { to: peer, deadlineMs: DEADLINE_MS }).outcome;
    if (outcome.kind === 'result') return unpackFrame<PostAnswer>(outcome.payload).header;
    const { error } = outcome;
    const status = error.outcome === 'UNKNOWN' ? 502 : 503;
    return { status, code: error.rpcCode, text: `the node with the stream does not answer: ${error.message}`, id: '' };
  }

  close(): void {
    this.#serving.close();
  }

  #serve(serving: BusServing): void {
    const { header, pieces } = unpackFrame<PostHeader>(serving.payload);
    const { sessionId, principal, endpoint } = header;
    serving.answer(packFrame(this.#take({ sessionId, principal, endpoint, body: pieces[0]! })));
  }
}

function subject(peer: string): string {
  return `trunkline.posted.${peer}`;
}
