/** One mebibyte of text that holds nothing that JSON would escape, and does not repeat at a short distance. */
export const BIG_TEXT: Buffer = Buffer.from(
  Array.from({ length: 32_768 }, (_, line) => `line ${String(line).padStart(8, '0')} of the big text`).join(' '),
).subarray(0, 1 << 20);

const BIG_RESULT = `{"content":[{"type":"text","text":"${BIG_TEXT.toString('latin1')}"}]}`;

export interface Asked {
  readonly id?: number | string;
  readonly method: string;
  readonly params?: { readonly name?: string; readonly arguments?: { readonly text?: string } };
}

/** The tools of one server: `echo` and `big` first, then as many more as asked for. */
export function toolsJson(count: number): string {
  const tools = Array.from({ length: count }, (_, index) => {
    const name = index === 0 ? 'echo' : index === 1 ? 'big' : `tool_${index}`;
    const property = { type: 'string', description: 'What the tool is to work on' };
    return {
      name,
      description: `Tool number ${index} of this server, described in a sentence of ordinary length.`,
      inputSchema: { type: 'object', properties: { text: property, [`option_${index}`]: { type: 'integer' } } },
    };
  });
  return JSON.stringify(tools);
}

/** The result's JSON text for what both eras share, or null when the method is unknown. */
export function resultJson(asked: Asked, tools: string, extra: string): string | null {
  switch (asked.method) {
    case 'initialize':
      return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`;
    case 'tools/list':
      return `{${extra}"tools":${tools}}`;
    case 'tools/call': {
      const { name, arguments: given } = asked.params ?? {};
      if (name === 'big') return extra === '' ? BIG_RESULT : `{${extra}${BIG_RESULT.slice(1)}`;
      return `{${extra}"content":[{"type":"text","text":${JSON.stringify(given?.text ?? '')}}]}`;
    }
    case 'ping':
      return '{}';
    default:
      return null;
  }
}

export function answerJson(asked: Asked, result: string | null): string {
  const id = JSON.stringify(asked.id ?? null);
  if (result !== null) return `{"jsonrpc":"2.0","id":${id},"result":${result}}`;
  return `{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"Method not found"}}`;
}
