/** The methods of both vocabularies, as data. What is not listed is an extension's: relayed, never guessed at. */
import type { Era } from '../model/message.ts';
import type { ListKind } from '../model/server-catalog.ts';

/** Opens a stream of what changes, and ends with it: no answer is waited for. */
export const LISTEN = 'subscriptions/listen';

/** Requests that a client sends. */
const CLIENT_REQUESTS: Readonly<Record<Era, ReadonlySet<string>>> = {
  stateful: new Set([
    'initialize',
    'ping',
    'tools/list',
    'tools/call',
    'prompts/list',
    'prompts/get',
    'resources/list',
    'resources/templates/list',
    'resources/read',
    'resources/subscribe',
    'resources/unsubscribe',
    'completion/complete',
    'logging/setLevel',
    'tasks/get',
    'tasks/result',
    'tasks/list',
    'tasks/cancel',
  ]),
  stateless: new Set([
    'server/discover',
    'tools/list',
    'tools/call',
    'prompts/list',
    'prompts/get',
    'resources/list',
    'resources/templates/list',
    'resources/read',
    'completion/complete',
    LISTEN,
    // Extension io.modelcontextprotocol/tasks.
    'tasks/get',
    'tasks/update',
    'tasks/cancel',
  ]),
};

/** Methods of earlier revisions that 2026-07-28 took away: 404 and -32601 there (streamable-http §Protocol Version Header). */
const REMOVED: ReadonlySet<string> = new Set([
  'initialize',
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
  'tasks/result',
  'tasks/list',
  'sampling/createMessage',
  'elicitation/create',
  'roots/list',
  'notifications/initialized',
  'notifications/roots/list_changed',
]);

/** The member of `params` that `Mcp-Name` mirrors (streamable-http §Standard Request Headers; SEP-2663 for tasks). */
const NAME_MEMBER: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
]);

/** Results that carry `ttlMs` and `cacheScope` (server/utilities/caching; SEP-2640 for skills). */
const CACHEABLE: ReadonlySet<string> = new Set([
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'skills/list',
  'skills/get',
]);

export interface ListMethod {
  readonly kind: ListKind;
  readonly method: string;
  /** The member of the result that holds the items, and the member of an item that identifies it. */
  readonly resultKey: string;
  readonly itemKey: 'name' | 'uri' | 'uriTemplate';
  /** The notification that invalidates the list, and the capability that announces it. */
  readonly changed: string;
  readonly capability: 'tools' | 'prompts' | 'resources';
}

export const LIST_METHODS: readonly ListMethod[] = [
  {
    kind: 'tools',
    method: 'tools/list',
    resultKey: 'tools',
    itemKey: 'name',
    changed: 'notifications/tools/list_changed',
    capability: 'tools',
  },
  {
    kind: 'prompts',
    method: 'prompts/list',
    resultKey: 'prompts',
    itemKey: 'name',
    changed: 'notifications/prompts/list_changed',
    capability: 'prompts',
  },
  {
    kind: 'resources',
    method: 'resources/list',
    resultKey: 'resources',
    itemKey: 'uri',
    changed: 'notifications/resources/list_changed',
    capability: 'resources',
  },
  {
    kind: 'resourceTemplates',
    method: 'resources/templates/list',
    resultKey: 'resourceTemplates',
    itemKey: 'uriTemplate',
    changed: 'notifications/resources/list_changed',
    capability: 'resources',
  },
];

const LIST_BY_METHOD: ReadonlyMap<string, ListMethod> = new Map(LIST_METHODS.map((list) => [list.method, list]));
const LIST_BY_KIND: ReadonlyMap<ListKind, ListMethod> = new Map(LIST_METHODS.map((list) => [list.kind, list]));

export function isClientRequest(method: string, era: Era): boolean {
  return CLIENT_REQUESTS[era].has(method);
}

/** Whether 2026-07-28 took the method away. */
export function isRemoved(method: string): boolean {
  return REMOVED.has(method);
}

/** The member of `params` that `Mcp-Name` mirrors; null for methods without that header. */
export function nameMember(method: string): string | null {
  return NAME_MEMBER.get(method) ?? null;
}

export function isCacheable(method: string): boolean {
  return CACHEABLE.has(method);
}

export function listMethod(method: string): ListMethod | null {
  return LIST_BY_METHOD.get(method) ?? null;
}

export function listOf(kind: ListKind): ListMethod {
  return LIST_BY_KIND.get(kind)!;
}

/** The lists that a `list_changed` notification invalidates; empty for other methods. */
export function listsChangedBy(notification: string): readonly ListKind[] {
  return LIST_METHODS.filter((list) => list.changed === notification).map((list) => list.kind);
}
