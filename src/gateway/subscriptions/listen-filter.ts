import { parseObject } from '../../catalog/catalog-member.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { bodyField } from '../../protocol/body.ts';
import {
  decodeString,
  type Entry,
  elements,
  entries,
  field,
  type Range,
  stringValue,
  text,
} from '../../protocol/fields.ts';

/** Members of a listen's filter that ask for `list_changed`, and the notification that each asks for. */
export const LIST_FLAGS: ReadonlyMap<string, string> = new Map([
  ['toolsListChanged', 'notifications/tools/list_changed'],
  ['promptsListChanged', 'notifications/prompts/list_changed'],
  ['resourcesListChanged', 'notifications/resources/list_changed'],
]);

/** What a `subscriptions/listen` asks for (2026-07-28 basic/patterns/subscriptions §Notification Filter). */
export interface ListenFilter {
  /** Members of `LIST_FLAGS` that are true. */
  readonly flags: readonly string[];
  readonly uris: readonly string[];
  readonly taskIds: readonly string[];
  /** It asks for something beside these, which only the server can make sense of. */
  readonly more: boolean;
}

export function listenFilter(request: Message): ListenFilter | GatewayError {
  const { bytes } = request;
  const filter = bodyField(request, 'notifications');
  if (filter === null || bytes[filter.start] !== 0x7b) {
    return new GatewayError('INVALID_PARAMS', 'params.notifications must be an object');
  }
  const flags = [...LIST_FLAGS.keys()].filter((flag) => {
    const value = field(bytes, filter.start, filter.end, flag);
    return value !== null && text(bytes, value) === 'true';
  });
  const uris = strings(bytes, filter, 'resourceSubscriptions');
  const taskIds = strings(bytes, filter, 'taskIds');
  if (uris === null || taskIds === null) {
    const key = uris === null ? 'resourceSubscriptions' : 'taskIds';
    return new GatewayError('INVALID_PARAMS', `params.notifications.${key} must be an array of strings`);
  }
  return {
    flags,
    uris: [...new Set(uris)],
    taskIds: [...new Set(taskIds)],
    more: entries(bytes, filter.start, filter.end).some((entry) => !isKnown(bytes, entry)),
  };
}

/** The `list_changed` notifications that a server's acknowledgement honours, of those that the flags ask for. */
export function listsHonouredBy(acknowledgement: Message, flags: Iterable<string> = LIST_FLAGS.keys()): string[] {
  const honoured = parseObject(acknowledgement.body.toString())?.['notifications'] as
    | Record<string, unknown>
    | undefined;
  return [...flags].filter((flag) => honoured?.[flag] === true).map((flag) => LIST_FLAGS.get(flag)!);
}

function isKnown(bytes: Buffer, { keyStart, keyEnd }: Entry): boolean {
  const key = decodeString(bytes, keyStart, keyEnd) ?? '';
  return key === 'resourceSubscriptions' || key === 'taskIds' || LIST_FLAGS.has(key);
}

function strings(bytes: Buffer, object: Range, key: string): string[] | null {
  const array = field(bytes, object.start, object.end, key);
  if (array === null) return [];
  if (bytes[array.start] !== 0x5b) return null;
  const values: string[] = [];
  for (const element of elements(bytes, array.start, array.end)) {
    const value = stringValue(bytes, element);
    if (value === null) return null;
    values.push(value);
  }
  return values;
}

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
