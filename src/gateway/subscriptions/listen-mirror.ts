import { parseObject } from '../../catalog/catalog-member.ts';
import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import { notification } from '../../protocol/compose.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import type { Listen } from './listen.ts';
import { LIST_FLAGS, type ListenFilter } from './listen-filter.ts';
import { openListen } from './server-listen.ts';

/** How long a server gets to acknowledge before the gateway acknowledges what the client asked for. */
const ACK_WAIT_MS = 2_000;

export interface ListenMirrorDeps {
  readonly dispatch: Dispatch;
  readonly clock: Clock;
  /** Notifications of a server about its lists and resources may have been lost. */
  readonly missed: (server: string) => void;
}

/**
 * A listen on the endpoint of one stateless server that asks for something only the server understands: filter,
 * acknowledgement and notifications pass as they are. The client's stream outlives a break of the server's, which is opened
 * again; what may have been missed is sent as changed lists.
 */
export function mirrorListen(deps: ListenMirrorDeps, listen: Listen, server: string, filter: ListenFilter): void {
  const asked = JSON.stringify(Object.fromEntries(filter.flags.map((flag) => [flag, true])));
  listen.onEnd(deps.clock.after(ACK_WAIT_MS, () => listen.acknowledge(asked)));
  openListen(deps, listen, server, listen.exchange.request, {
    acknowledged: (message) => {
      if (!listen.acknowledged) return listen.acknowledgeWith(message);
      deps.missed(server);
      for (const method of acknowledgedLists(message, filter)) listen.send(notification(method, null, 'stateless'));
    },
    received: (message) => listen.send(message),
    answered: (outcome) => listen.endWith(outcome),
  });
}

function acknowledgedLists(message: Message, filter: ListenFilter): string[] {
  const honoured = parseObject(message.body.toString())?.['notifications'] as Record<string, unknown> | undefined;
  return filter.flags.filter((flag) => honoured?.[flag] === true).map((flag) => LIST_FLAGS.get(flag)!);
}
