import { shellWord } from '../../parts/command.tsx';
import { REVISIONS } from './call-address.ts';
import type { JsonObject } from './exact-json.ts';
import type { PlayRequest } from './play.ts';

const KEY = 'TRUNKLINE_KEY';
/** What a test speaks: it needs no session. */
export const MODERN = '2026-07-28';
const CLIENT = { name: 'curl', version: '1' };

/** The command that makes the same call, or why none does. */
export function asCommand(
  { method, params, principal, revision, server, node }: PlayRequest,
  target: { server: string; tool: string } | null,
): { readonly text: string } | { readonly why: string } {
  if (method !== 'tools/call') return { why: 'commands call tools only' };
  if (target === null) return { why: 'no tool is chosen' };
  if (principal !== null && principal !== 'operator') return { why: 'commands call as the operator' };
  if (revision !== REVISIONS[0]) return { why: `commands do not choose a revision; ${REVISIONS[0]} is nearest` };
  if (server !== null && server !== target.server) return { why: `commands call ${target.server} at its own endpoint` };
  if (node !== null) return { why: 'commands call at the node where they run' };
  const args = JSON.stringify(params['arguments'] ?? {});
  return { text: `trunkline call ${shellWord(`${target.server}.${target.tool}`)} --json ${shellWord(args)}` };
}

/** The call with curl. A stateful revision needs a session first. */
export function asCurl(request: PlayRequest, mcpUrl: string): string {
  const url = urlOf(request, mcpUrl);
  const key = usesKey(request) ? ` \\\n  -H "Authorization: Bearer $${KEY}"` : '';
  // Headers come as words of the shell: names and URIs in them are the server's, which must not reach the shell unquoted.
  const post = (headers: readonly string[], message: object, options = '-sS'): string =>
    `curl ${options} ${shellWord(url)}${key} \\\n${[
      ...['Content-Type: application/json', 'Accept: application/json, text/event-stream'].map(shellWord),
      ...headers,
    ]
      .map((header) => `  -H ${header} \\\n`)
      .join('')}  -d ${shellWord(JSON.stringify(message))}`;
  const { method, params, revision } = request;
  if (revision === MODERN) return post(modernHeaders(request).map(shellWord), modernMessage(request));
  const version = shellWord(`MCP-Protocol-Version: ${revision}`);
  const introduction = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: revision, capabilities: {}, clientInfo: CLIENT },
  };
  const session = ['"Mcp-Session-Id: $session"', version];
  return [
    `session=$(${post([], introduction, '-sS -D - -o /dev/null')} |\n  sed -n 's/^mcp-session-id: *\\([^\\r]*\\).*/\\1/Ip')`,
    post(session, { jsonrpc: '2.0', method: 'notifications/initialized' }),
    post(session, { jsonrpc: '2.0', id: 1, method, params }),
  ].join('\n');
}

/** A file for `node --test` that makes the call and expects what came back. */
export function asTest(request: PlayRequest, mcpUrl: string, result: JsonObject | null): string {
  const { method, params } = request;
  const name = params['name'] ?? params['uri'];
  const title = JSON.stringify(`${method}${typeof name === 'string' ? ` ${name}` : ''}`);
  const headers = Object.fromEntries(
    [...modernHeaders(request), 'Content-Type: application/json', 'Accept: application/json, text/event-stream'].map(
      (header) => header.split(': ') as [string, string],
    ),
  );
  const { resultType: _, _meta: __, ...kept } = (result ?? {}) as Record<string, unknown>;
  const expected =
    result === null
      ? '  assert.ok(message.result, JSON.stringify(message.error));'
      : `  assert.ok(message.result, JSON.stringify(message.error));\n  const { resultType, _meta, ...result } = message.result;\n  assert.deepEqual(result, ${indented(kept)});`;
  const auth = usesKey(request) ? `\n      Authorization: \`Bearer \${process.env.${KEY}}\`,` : '';
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';

const URL = process.env.MCP_URL ?? ${JSON.stringify(urlOf(request, mcpUrl))};

test(${title}, async () => {
  const response = await fetch(URL, {
    method: 'POST',
    headers: {${auth}
      ...${indented(headers, 6)},
    },
    body: JSON.stringify(${indented(modernMessage(request), 4)}),
  });
  const text = await response.text();
  // A slow answer comes as an event stream; the last event is the answer.
  const json = text.startsWith('{') ? text : text.split('\\n').findLast((line) => line.startsWith('data:')).slice(5);
  const message = JSON.parse(json);
${expected}
});
`;
}

function indented(value: unknown, by = 2): string {
  return JSON.stringify(value, null, 2).replaceAll('\n', `\n${' '.repeat(by)}`);
}

function modernMessage({ method, params }: PlayRequest): object {
  const _meta = {
    ...(params['_meta'] as object | undefined),
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientInfo': CLIENT,
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  return { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } };
}

function modernHeaders({ method, params }: PlayRequest): string[] {
  const name = method === 'resources/read' ? params['uri'] : params['name'];
  const isNamed = ['tools/call', 'prompts/get', 'resources/read'].includes(method) && typeof name === 'string';
  return [
    `MCP-Protocol-Version: ${MODERN}`,
    `Mcp-Method: ${method}`,
    ...(isNamed ? [`Mcp-Name: ${headerValue(name)}`] : []),
  ];
}

/** What a header cannot hold as it is goes in Base64 (2026-07-28 transports §Mcp-Name). */
function headerValue(text: string): string {
  if (/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text)) return text;
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}?=`;
}

function urlOf({ server }: PlayRequest, mcpUrl: string): string {
  return server === null ? mcpUrl : mcpUrl.replace(/\/mcp$/, `/servers/${encodeURIComponent(server)}/mcp`);
}

function usesKey({ principal }: PlayRequest): boolean {
  return principal !== null && principal !== 'operator' && principal !== 'anonymous';
}
