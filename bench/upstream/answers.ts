const MIB = 1 << 20;
const LINES = 32_768;

/** One line of each text. Lines differ, so that the text does not repeat at a short distance. */
const LINE_OF = {
  /** Contains nothing that JSON would escape. */
  big: (line: string) => `line ${line} of the big text `,
  /** Source code: line breaks, tabs, quotation marks, and backslashes in its strings. */
  'big-code': (line: string) => `\tif (seen.has("line ${line}")) {\n\t\tlog.write("C:\\\\temp\\n", entry);\n\t}\n`,
  /** JSON within JSON: every quotation mark is escaped. */
  'big-json': (line: string) => `{"id":${Number(line)},"name":"line ${line}","tags":["a","b"],"note":"say \\"hi\\""},`,
  /** Text beyond Latin-1, of two, three and four bytes a character. */
  'big-utf8': (line: string) => `строка ${line} 大きな文章 🎉 `,
} as const;

export type BigTool = keyof typeof LINE_OF;
export const BIG_TOOLS = Object.keys(LINE_OF) as BigTool[];

/** One mebibyte of text for each tool, as it is written between the quotation marks of JSON; made when first used. */
const texts = new Map<BigTool, Buffer>();

export function bigText(tool: BigTool): Buffer {
  let text = texts.get(tool);
  if (text === undefined) {
    const lines = Array.from({ length: LINES }, (_, line) => LINE_OF[tool](String(line).padStart(8, '0')));
    const whole: Buffer[] = [];
    let size = 0;
    for (const line of lines) {
      const bytes = Buffer.from(JSON.stringify(line).slice(1, -1));
      if (size + bytes.length > MIB) break;
      whole.push(bytes);
      size += bytes.length;
    }
    text = Buffer.concat([...whole, Buffer.alloc(MIB - size, 0x20)]);
    texts.set(tool, text);
  }
  return text;
}

/** The result of each tool, made when first used. */
const results = new Map<BigTool, string>();

function bigResult(tool: BigTool): string {
  let result = results.get(tool);
  if (result === undefined) {
    result = `{"content":[{"type":"text","text":"${bigText(tool).toString()}"}]}`;
    results.set(tool, result);
  }
  return result;
}

export interface Asked {
  readonly id?: number | string;
  readonly method: string;
  readonly params?: { readonly name?: string; readonly arguments?: { readonly text?: string } };
}

const FIRST_TOOLS = ['echo', ...BIG_TOOLS];

/** The tools of one server: `echo` and the big ones first, as many as asked for. */
export function toolsJson(count: number): string {
  const tools = Array.from({ length: count }, (_, index) => {
    const name = FIRST_TOOLS[index] ?? `tool_${index}`;
    const property = { type: 'string', description: 'What the tool is to work on' };
    return {
      name,
      description: `Tool number ${index} of this server, described in a sentence of ordinary length.`,
      inputSchema: { type: 'object', properties: { text: property, [`option_${index}`]: { type: 'integer' } } },
    };
  });
  return JSON.stringify(tools);
}

export function isBig(tool: string | undefined): tool is BigTool {
  return tool !== undefined && Object.hasOwn(LINE_OF, tool);
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
      if (isBig(name)) return extra === '' ? bigResult(name) : `{${extra}${bigResult(name).slice(1)}`;
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
