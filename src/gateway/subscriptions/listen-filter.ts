import { GatewayError } from '../../model/gateway-error.ts';
import { parseObject } from '../../model/json-object.ts';
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
import { updateOf } from '../resource-updates.ts';

/** Members of a listen's filter that ask for `list_changed`, with the notification of each. */
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
  /** Whether it asks for something else, which only the server understands. */
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
  const honoured = honouredFilter(acknowledgement);
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

/** Resources and tasks of one server, as `resourceOf` and `taskOf` write them, in the server's or the client's names. */
export type Wanted = ReadonlySet<string>;

const RESOURCES = 'resourceSubscriptions';
const TASKS = 'taskIds';

export function resourceOf(uri: string): string {
  return `${RESOURCES} ${uri}`;
}

export function taskOf(taskId: string): string {
  return `${TASKS} ${taskId}`;
}

/** The URI of a resource; null for a task. */
export function uriOf(wanted: string): string | null {
  return wanted.startsWith(`${RESOURCES} `) ? wanted.slice(RESOURCES.length + 1) : null;
}

/** An update of each of the resources, because some may be lost. */
export function updatesOf(wanted: Wanted): Message[] {
  return [...wanted].flatMap((name) => {
    const uri = uriOf(name);
    return uri === null ? [] : [updateOf(uri, 'stateless')];
  });
}

/** As members of the `notifications` of a `subscriptions/listen`. */
export function membersOf(wanted: Iterable<string>): Record<string, readonly string[]> {
  const kinds = Map.groupBy(wanted, (name) => name.slice(0, name.indexOf(' ')));
  return Object.fromEntries(
    Array.from(kinds, ([kind, names]) => [kind, names.map((name) => name.slice(kind.length + 1))]),
  );
}

/** The resources and tasks that the server's acknowledgement honours. */
export function honouredBy(acknowledgement: Message): Wanted {
  const filter = honouredFilter(acknowledgement);
  return new Set([...namesIn(filter?.[RESOURCES]).map(resourceOf), ...namesIn(filter?.[TASKS]).map(taskOf)]);
}

function honouredFilter(acknowledgement: Message): Record<string, unknown> | undefined {
  return parseObject(acknowledgement.body.toString())?.['notifications'] as Record<string, unknown> | undefined;
}

function namesIn(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((name) => typeof name === 'string') : [];
}
