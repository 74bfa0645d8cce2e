/** The methods of both vocabularies, as data. Other methods belong to extensions, and are relayed unchanged. */
import type { Era } from '../model/message.ts';
import type { ListKind } from '../model/server-catalog.ts';

/** Opens a stream of change notifications; its answer ends the stream, so it has no deadline. */
export const LISTEN = 'subscriptions/listen';
export const SET_LEVEL = 'logging/setLevel';

interface MethodFacts {
  /** The eras in which clients send this request; absent for messages of other kinds. */
  readonly eras?: readonly Era[];
  /** 2026-07-28 removed the method: 404 and -32601 there (streamable-http §Protocol Version Header). */
  readonly removed?: true;
  /** The member of `params` that `Mcp-Name` mirrors (streamable-http §Standard Request Headers; SEP-2663 for tasks). */
  readonly name?: 'name' | 'uri' | 'taskId';
  /** Its results carry `ttlMs` and `cacheScope` (server/utilities/caching; SEP-2640 for skills). */
  readonly cacheable?: true;
}

const BOTH: readonly Era[] = ['stateful', 'stateless'];
const STATEFUL: MethodFacts = { eras: ['stateful'], removed: true };
const STATELESS: readonly Era[] = ['stateless'];
const LIST: MethodFacts = { eras: BOTH, cacheable: true };

const METHODS: ReadonlyMap<string, MethodFacts> = new Map<string, MethodFacts>([
  ['initialize', STATEFUL],
  ['ping', STATEFUL],
  ['server/discover', { eras: STATELESS, cacheable: true }],
  ['tools/list', LIST],
  ['tools/call', { eras: BOTH, name: 'name' }],
  ['prompts/list', LIST],
  ['prompts/get', { eras: BOTH, name: 'name' }],
  ['resources/list', LIST],
  ['resources/templates/list', LIST],
  ['resources/read', { eras: BOTH, name: 'uri', cacheable: true }],
  ['resources/subscribe', STATEFUL],
  ['resources/unsubscribe', STATEFUL],
  ['completion/complete', { eras: BOTH }],
  [SET_LEVEL, STATEFUL],
  [LISTEN, { eras: STATELESS }],
  // Of 2025-11-25, and of the extension io.modelcontextprotocol/tasks.
  ['tasks/get', { eras: BOTH, name: 'taskId' }],
  ['tasks/update', { eras: STATELESS, name: 'taskId' }],
  ['tasks/cancel', { eras: BOTH, name: 'taskId' }],
  ['tasks/result', STATEFUL],
  ['tasks/list', STATEFUL],
  ['skills/list', { cacheable: true }],
  ['skills/get', { cacheable: true }],
  ['sampling/createMessage', { removed: true }],
  ['elicitation/create', { removed: true }],
  ['roots/list', { removed: true }],
  ['notifications/initialized', { removed: true }],
  ['notifications/roots/list_changed', { removed: true }],
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

function list(
  kind: ListKind,
  capability: ListMethod['capability'],
  itemKey: ListMethod['itemKey'],
  method = `${kind}/list`,
): ListMethod {
  return { kind, method, resultKey: kind, itemKey, changed: `notifications/${capability}/list_changed`, capability };
}

export const LIST_METHODS: readonly ListMethod[] = [
  list('tools', 'tools', 'name'),
  list('prompts', 'prompts', 'name'),
  list('resources', 'resources', 'uri'),
  list('resourceTemplates', 'resources', 'uriTemplate', 'resources/templates/list'),
];

const LIST_BY_METHOD: ReadonlyMap<string, ListMethod> = new Map(LIST_METHODS.map((list) => [list.method, list]));
const LIST_BY_KIND: ReadonlyMap<ListKind, ListMethod> = new Map(LIST_METHODS.map((list) => [list.kind, list]));

/** Whether clients send this request in the era; without one, in any era. */
export function isClientRequest(method: string, era?: Era): boolean {
  const eras = METHODS.get(method)?.eras;
  return eras !== undefined && (era === undefined || eras.includes(era));
}

export function isRemoved(method: string): boolean {
  return METHODS.get(method)?.removed === true;
}

/** The member of `params` that `Mcp-Name` mirrors; null for methods without that header. */
export function nameMember(method: string): string | null {
  return METHODS.get(method)?.name ?? null;
}

export function isCacheable(method: string): boolean {
  return METHODS.get(method)?.cacheable === true;
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
