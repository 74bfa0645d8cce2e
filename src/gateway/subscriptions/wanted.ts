import { parseObject } from '../../catalog/catalog-member.ts';
import type { Message } from '../../model/message.ts';

/** What a client wants to hear of one server, in the server's own names. */
export interface Wanted {
  readonly uris: ReadonlySet<string>;
  readonly taskIds: ReadonlySet<string>;
}

export const NOTHING_WANTED: Wanted = { uris: new Set(), taskIds: new Set() };

export function unionOf(all: Iterable<{ readonly wanted: Wanted }>): Wanted {
  const uris = new Set<string>();
  const taskIds = new Set<string>();
  for (const { wanted } of all) {
    for (const uri of wanted.uris) uris.add(uri);
    for (const taskId of wanted.taskIds) taskIds.add(taskId);
  }
  return { uris, taskIds };
}

/** Whether `all` has everything of `some`. */
export function covers(all: Wanted, some: Wanted): boolean {
  return some.uris.isSubsetOf(all.uris) && some.taskIds.isSubsetOf(all.taskIds);
}

/** What of `some` is in `all`, in the order of `some`. */
export function commonOf(all: Wanted, some: Wanted): Wanted {
  return {
    uris: new Set(some.uris.values().filter((uri) => all.uris.has(uri))),
    taskIds: new Set(some.taskIds.values().filter((taskId) => all.taskIds.has(taskId))),
  };
}

/** As the `notifications` of a `subscriptions/listen`. */
export function filterOf({ uris, taskIds }: Wanted): string {
  return JSON.stringify({
    ...(uris.size > 0 ? { resourceSubscriptions: [...uris] } : {}),
    ...(taskIds.size > 0 ? { taskIds: [...taskIds] } : {}),
  });
}

/** What the server says in its acknowledgement that it honours. */
export function honouredBy(acknowledgement: Message): Wanted {
  const filter = parseObject(acknowledgement.body.toString())?.['notifications'] as
    | { readonly resourceSubscriptions?: unknown; readonly taskIds?: unknown }
    | undefined;
  return { uris: namesIn(filter?.resourceSubscriptions), taskIds: namesIn(filter?.taskIds) };
}

function namesIn(list: unknown): ReadonlySet<string> {
  return new Set(Array.isArray(list) ? list.filter((name) => typeof name === 'string') : []);
}
