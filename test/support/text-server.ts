import { type InProcessOptions, type InProcessServer, inProcessBytes, type MemoryLink } from '../../src/index.ts';

export interface TextCall {
  /** Own name of the tool. */
  readonly tool: string;
  /** The arguments as they are on the wire. */
  readonly args: string;
  /** `_meta.progressToken` as it is on the wire; null without one. */
  readonly token: string | null;
  readonly link: MemoryLink;
}

export interface TextServerOptions extends InProcessOptions {
  readonly name?: string;
  /** Definitions of tools as JSON text. May change between lists. */
  readonly tools?: () => readonly string[];
  /** The result of a call as JSON text, null for no answer; an Error becomes a JSON-RPC error. */
  readonly call?: (call: TextCall) => string | Error | null | Promise<string | Error | null>;
  /** Results of other methods as JSON text. */
  readonly answers?: Readonly<Record<string, (params: string) => string | Promise<string>>>;
  readonly capabilities?: string;
  readonly onNotification?: (method: string, message: string) => void;
}

export function tool(name: string, more = ''): string {
  return `{"name":${JSON.stringify(name)},"inputSchema":{"type":"object"}${more}}`;
}

export function textResult(text: string): string {
  return `{"content":[{"type":"text","text":${JSON.stringify(text)}}]}`;
}

/** A server of 2025-11-25 in this process that never parses the messages that it forwards: texts in, texts out. */
export function textServer(options: TextServerOptions): InProcessServer {
  return inProcessBytes((link) => {
    const receive = (message: Buffer): void => {
      void answer(message.toString(), link, options);
    };
    return { receive, close: () => {} };
  }, options);
}

async function answer(text: string, link: MemoryLink, options: TextServerOptions): Promise<void> {
  const { id, method, params } = JSON.parse(text) as {
    id?: unknown;
    method?: string;
    params?: { name: string; _meta?: { progressToken?: unknown } };
  };
  if (method === undefined) return;
  if (id === undefined) return options.onNotification?.(method, text);
  const reply = (member: string): void => link.deliver(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${member}}`);
  const refuse = (code: number, message: string): void => reply(`"error":${JSON.stringify({ code, message })}`);
  const body = await resultOf(method, text, params, link, options);
  if (body === null) return;
  if (body === undefined) refuse(-32601, `Method not found: ${method}`);
  else if (body instanceof Error) refuse(-32000, body.message);
  else reply(`"result":${body}`);
}

async function resultOf(
  method: string,
  text: string,
  params: { name: string; _meta?: { progressToken?: unknown } } | undefined,
  link: MemoryLink,
  { name = 'text', capabilities = '{"tools":{"listChanged":true}}', tools, call, answers }: TextServerOptions,
): Promise<string | Error | null | undefined> {
  const info = JSON.stringify({ name, version: '1.0.0', title: `The ${name} server` });
  const own = answers?.[method];
  if (own !== undefined) return own(paramsOf(text));
  if (method === 'initialize')
    return `{"protocolVersion":"2025-11-25","capabilities":${capabilities},"serverInfo":${info}}`;
  if (method === 'ping') return '{}';
  if (method === 'tools/list') return `{"tools":[${(tools?.() ?? []).join(',')}]}`;
  if (method !== 'tools/call') return undefined;
  const token = /"progressToken":([^,}]+)/.exec(text)?.[1] ?? null;
  return (await call?.({ tool: params!.name, args: argumentsOf(text), token, link })) ?? null;
}

function paramsOf(text: string): string {
  return JSON.stringify((JSON.parse(text) as { params?: unknown }).params ?? {});
}

/** The balanced object behind `"arguments":`; good enough for arguments without braces in strings. */
function argumentsOf(text: string): string {
  const key = text.indexOf('"arguments":');
  if (key < 0) return '';
  const start = key + '"arguments":'.length;
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return text.slice(start, at + 1);
  }
  return '';
}
