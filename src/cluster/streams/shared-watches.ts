import type { ClientProfile } from '../../model/client-profile.ts';
import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { result } from '../../protocol/compose.ts';
import { field, text } from '../../protocol/fields.ts';
import { Recent } from '../recent.ts';

/** Resources of which it is known who watches them; others are given up by whoever comes first. */
const MAX_RESOURCES = 65_536;
const SUBSCRIBE = 'resources/subscribe';
const UNSUBSCRIBE = 'resources/unsubscribe';

/** Whether this asks for something that the others on the connection have a part in. */
export function concernsAll({ method }: Message): boolean {
  return method === SUBSCRIBE || method === UNSUBSCRIBE;
}

/**
 * Each node subscribes once to what its clients watch. Where the connection to the server is one for all nodes, it is
 * given up when the last of them gives it up.
 */
export class SharedWatches {
  readonly #nodes = new Recent<Set<string>>(MAX_RESOURCES);

  /** `key`: of the connection; `node`: for whose clients. */
  async run(
    server: string,
    key: string | null,
    { sessionId }: ClientProfile,
    node: string,
    request: Message,
    pass: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const uri = request.bodyStart < 0 ? null : field(request.bytes, request.bodyStart, request.bodyEnd, 'uri');
    // A session's own connection is nobody else's affair.
    if (uri === null || key === sessionId) return pass();
    const resource = [server, key ?? '', text(request.bytes, uri)].join('\0');
    const nodes = this.#nodes.get(resource) ?? new Set<string>();
    if (request.method === UNSUBSCRIBE) {
      nodes.delete(node);
      if (nodes.size > 0) return answer(result('0', '{}', 'stateful'));
      this.#nodes.delete(resource);
      return pass();
    }
    // Before it is passed on, so that nobody who gives it up meanwhile takes it away.
    nodes.add(node);
    this.#nodes.set(resource, nodes);
    const outcome = await pass();
    if (outcome.kind === 'failure' || outcome.message.kind !== 'result') nodes.delete(node);
    return outcome;
  }

  /** The node is gone, and its clients with it. */
  forgetPeer(peer: string): void {
    for (const [resource, nodes] of [...this.#nodes.entries()]) {
      if (nodes.delete(peer) && nodes.size === 0) this.#nodes.delete(resource);
    }
  }
}
