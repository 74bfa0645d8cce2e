/** The most expensive lists of a hostile server, by method; a server offers all lists of one set together. */
export type Lists = Readonly<Record<string, string>>;

/** So large that each list would take more than twelve seconds if its cost grew with the square of its size. */
const BYTES = 4 * 1024 * 1024;

function filled(bytes: number, piece: (i: number) => string): string {
  const pieces: string[] = [];
  for (let size = 0; size < bytes; size += pieces.at(-1)!.length + 1) pieces.push(piece(pieces.length));
  return pieces.join(',');
}

function tool(name: string, more = ''): string {
  return `{"name":"${name}"${more},"inputSchema":{"type":"object"}}`;
}

const APP = '{"uri":"ui://app","mimeType":"text/html;profile=mcp-app","text":""}';
const DEEP_TEXTS = `,"x":${'['.repeat(400)}${Array(5_000).fill('"\u0430a"').join(',')}${']'.repeat(400)}`;

export const HOSTILE_LISTS: Readonly<Record<string, Lists>> = {
  'parameters, items, templates': {
    'tools/list': `{"tools":[{"name":"h","inputSchema":{"type":"object","properties":{${filled(
      BYTES,
      (i) => `"p${i}":{"type":"string","x-mcp-header":"H${i}"}`,
    )}}}}]}`,
    'prompts/list': `{"prompts":[${filled(BYTES, () => '1')}]}`,
    'resources/list': `{"resources":[${filled(BYTES, (i) => `{"uri":"a://${i}","name":"n"}`)}]}`,
    'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"${'{a}'.repeat(100_000)}","name":"t"},${filled(
      BYTES / 4,
      (i) => `{"uriTemplate":"{+a}x{b}${i}","name":"t"}`,
    )}]}`,
  },
  'names, texts, apps': {
    'tools/list': `{"tools":[${filled(BYTES, (i) => tool(`${'n'.repeat(120)}${i}`))}]}`,
    'prompts/list': `{"prompts":[${filled(BYTES, (i) => `{"name":"p${i}"${DEEP_TEXTS}}`)}]}`,
    'resources/list': '{"resources":[{"uri":"ui://app","name":"a"}]}',
    'resources/read': `{"contents":[${filled(BYTES, () => APP)}]}`,
  },
};

const CAPABILITIES = '{"tools":{},"prompts":{},"resources":{}}';

/** The answer of a hostile server: the body of a result. */
export function hostileResult(lists: Lists, method: string): string {
  if (method === 'initialize')
    return `{"protocolVersion":"2025-11-25","capabilities":${CAPABILITIES},"serverInfo":{"name":"h","version":"1"}}`;
  const rest =
    method === 'server/discover'
      ? `{"supportedVersions":["2026-07-28"],"capabilities":${CAPABILITIES}}`
      : (lists[method] ?? '{"content":[]}');
  return `{"resultType":"complete","ttlMs":0,"cacheScope":"private",${rest.slice(1)}`;
}
