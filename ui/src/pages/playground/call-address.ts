import type { Tool } from '../../api/operations.ts';
import type { JsonObject } from './exact-json.ts';
import type { Caller } from './play.ts';

/** The first is what a page begins with. */
export const REVISIONS = ['2025-11-25', '2026-07-28', '2025-06-18', '2025-03-26', '2024-11-05'] as const;
export const METHODS = [
  'tools/call',
  'tools/list',
  'prompts/get',
  'prompts/list',
  'resources/read',
  'resources/list',
  'resources/templates/list',
  'completion/complete',
  'logging/setLevel',
  'ping',
  'server/discover',
] as const;

/** What is named beside the arguments. */
export function kindOf(method: string): 'tool' | 'prompt' | 'resource' | null {
  if (method === 'tools/call') return 'tool';
  if (method === 'prompts/get') return 'prompt';
  return method === 'resources/read' ? 'resource' : null;
}

/** The caller of an address. `endpoint`: a server; empty for all of them. */
export function callerIn(query: URLSearchParams): Caller {
  const word = (name: string): string | null => query.get(name) || null;
  return {
    server: word('endpoint'),
    principal: word('as'),
    revision: word('revision') ?? REVISIONS[0],
    node: word('node'),
  };
}

/** What the address calls: names a view of the page, so that another one has another form. */
export function nameOf(query: URLSearchParams): string {
  const kind = kindOf(query.get('method') ?? 'tools/call');
  if (kind === 'tool') return query.has('tool') ? `${query.get('server') ?? ''} ${query.get('tool')}`.trim() : '';
  return kind === null ? '' : (query.get('target') ?? '');
}

export function targetTool(tools: readonly Tool[], query: URLSearchParams): Tool | null {
  const method = query.get('method') ?? 'tools/call';
  if (method !== 'tools/call') return null;
  const [server, name] = [query.get('server'), query.get('tool')];
  return tools.find((tool) => tool.server === server && tool.name === name) ?? null;
}

/** The params of the request. */
export function namedParams(method: string, tool: Tool | null, query: URLSearchParams, args: JsonObject): JsonObject {
  const { server } = callerIn(query);
  switch (kindOf(method)) {
    case 'tool': {
      // A tool that is not offered can be called too: the refusal is the answer.
      const own = query.get('tool') ?? '';
      const exposed = tool?.exposedName ?? `${query.get('server') ?? ''}__${own}`;
      return { name: server === null ? exposed : own, arguments: args };
    }
    case 'prompt':
      return { name: query.get('target') ?? '', arguments: args };
    case 'resource':
      return { ...args, uri: query.get('target') ?? '' };
    default:
      return args;
  }
}
